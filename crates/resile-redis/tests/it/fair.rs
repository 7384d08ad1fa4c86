//! The parts of a limit that equal and unequal members get.

use std::time::Duration;

use resile_redis::Fleet;
use tokio::time::sleep;

use crate::crew::{Load, Mate, all_share, limited};
use crate::server::Server;

const TIME: Duration = Duration::from_secs(6);

/// Lets members of these weights call in loops. Returns the admissions of each.
async fn parts(per_second: u32, weights: &[u32]) -> Option<Vec<f64>> {
    let server = Server::start(&[])?;
    let join = |weight: &u32| {
        let fleet = Fleet::new(&server.url()).unwrap().with_weight(*weight);
        Mate::join(&fleet, limited(per_second, per_second / 10))
    };
    let crew: Vec<_> = weights.iter().map(join).collect();
    all_share(&crew).await;
    let mut loads = Vec::new();
    for mate in &crew {
        let mut load = Load::new();
        load.add(mate, 20);
        loads.push(load);
    }
    sleep(Duration::from_secs(2) + TIME).await;
    let count = |load: &Load| {
        let end = load.now();
        load.times().between(end.saturating_sub(TIME), end).count()
    };
    let counts = loads.iter().map(count).collect();
    println!("{per_second} a second for the weights {weights:?}: {counts:?} in {TIME:?}");
    Some(counts)
}

/// Returns Jain's index, which is 1 for equal parts.
fn jain(counts: &[f64]) -> f64 {
    let (sum, squares) = (counts.iter().sum::<f64>(), counts.iter().map(|n| n * n).sum::<f64>());
    sum * sum / (squares * f64::from(u32::try_from(counts.len()).unwrap()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_members_get_equal_parts_and_others_by_weight() {
    let few = [1, 1, 1, 1];
    let many = [1; 8];
    let (twenty, forty, eight, weighted) =
        tokio::join!(parts(20, &few), parts(40, &few), parts(40, &many), parts(60, &[1, 2, 3]));
    for (counts, per_second) in [(twenty, 20.0), (forty, 40.0), (eight, 40.0)] {
        let Some(counts) = counts else { return };
        assert!(jain(&counts) >= 0.95, "{counts:?}");
        let used = counts.iter().sum::<f64>() / (per_second * TIME.as_secs_f64());
        assert!((0.95..1.05).contains(&used), "{used}: {counts:?}");
    }
    let weighted = weighted.unwrap();
    assert!((weighted[2] / weighted[0] - 3.0).abs() < 0.4, "{weighted:?}");
    assert!((weighted[1] / weighted[0] - 2.0).abs() < 0.3, "{weighted:?}");
}
