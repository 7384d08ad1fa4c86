//! Prints each law with its proof, and with `--mutants` each change of the sources and the claim that
//! it breaks.

use std::process::ExitCode;
use std::time::Instant;

use lexopt::Arg;
use proofs::law::Law;
use proofs::laws;
use proofs::mutant;
use proofs::solver::Solver;
use proofs::source::Source;

const HELP: &str = "\
Proves the laws of the shared words with z3.

  proofs              prove all laws
  proofs --mutants    change each comparison, operation and constant, and show that a proof fails
  proofs --only NAME  only the laws whose name begins so
";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("proofs: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, String> {
    let (mut mutants, mut only) = (false, String::new());
    let mut args = lexopt::Parser::from_env();
    while let Some(arg) = args.next().map_err(|error| error.to_string())? {
        match arg {
            Arg::Long("mutants") => mutants = true,
            Arg::Long("only") => {
                let name = args.value().map_err(|error| error.to_string())?;
                only = name.to_string_lossy().into_owned();
            }
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(true);
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    let laws: Vec<_> = laws::all().into_iter().filter(|law| law.name.starts_with(&only)).collect();
    if laws.is_empty() {
        return Err(format!("no law has a name that begins with `{only}`"));
    }
    let mut solver =
        Solver::new().map_err(|error| format!("z3 does not start: {error}. Install `z3`"))?;
    if mutants { Ok(change(&laws, &mut solver)) } else { Ok(prove(&laws, &mut solver)) }
}

fn prove(laws: &[Law], solver: &mut Solver) -> bool {
    std::panic::set_hook(Box::new(|_| {})); // the report names the cause
    let (mut all, mut claims) = (true, 0);
    println!("{:<34} {:>5} {:>6} {:>7}  law", "name", "paths", "claims", "ms");
    for law in laws {
        let began = Instant::now();
        let proof = law.prove(&Source::read(law.files), solver);
        let took = began.elapsed().as_millis();
        println!("{:<34} {:>5} {:>6} {took:>7}  {}", law.name, proof.paths, proof.claims, law.says);
        if let Some(broken) = &proof.broken {
            println!("    BROKEN: {}\n    by {}", broken.claim, broken.inputs);
        }
        all &= proof.broken.is_none();
        claims += proof.claims;
    }
    println!("{} laws, {claims} claims, {} questions to z3", laws.len(), solver.asked);
    all
}

/// Tries each change. Returns whether all of them break a proof, but those that change no behaviour.
fn change(laws: &[Law], solver: &mut Solver) -> bool {
    std::panic::set_hook(Box::new(|_| {}));
    let mut groups: Vec<(&[&str], Vec<&Law>)> = Vec::new();
    for law in laws {
        match groups.iter_mut().find(|(files, _)| *files == law.files) {
            Some((_, group)) => group.push(law),
            None => groups.push((law.files, vec![law])),
        }
    }
    let (mut found, mut missed) = (0_u32, 0_u32);
    for (files, mut group) in groups {
        let source = Source::read(files);
        let mut about: Vec<_> = group.iter().flat_map(|law| law.about).copied().collect();
        about.sort_unstable();
        about.dedup();
        for mutant in mutant::all(&source, &about) {
            // The laws about the changed function come first, because they find most changes.
            group.sort_by_key(|law| !law.about.contains(&&*mutant.of));
            let broken = group.iter().find_map(|law| {
                let broken = law.prove(&mutant.source, solver).broken?;
                Some(format!("{}: {} ({})", law.name, broken.claim, broken.inputs))
            });
            if let Some(broken) = broken {
                found += 1;
                println!("found   {}\n        {broken}", mutant.says);
            } else {
                let known = laws::SAME.iter().find(|(says, _)| mutant.says.starts_with(says));
                let why = known.map_or("MISSED", |(_, why)| why);
                missed += u32::from(known.is_none());
                println!("same    {}\n        {why}", mutant.says);
            }
        }
    }
    println!("{found} changes break a proof, {missed} do not and should");
    missed == 0
}
