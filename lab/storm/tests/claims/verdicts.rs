//! A printed row of the claims has the verdict of its printed figures.

use storm::claims::Published::{self, AtLeast, AtMost, Below, Between, Percent, PlusMinus};
use storm::claims::{Check, Verdict};

fn row(published: Published, measured: f64) -> Check {
    Check::new("a claim", published, (measured, 1, "/s"))
}

fn verdict(published: &Published, measured: f64) -> Verdict {
    row(published.clone(), measured).verdict()
}

#[test]
fn a_figure_outside_its_printed_tolerance_does_not_hold() {
    let all = f64::INFINITY;
    let cases = [
        (Percent(19.2, 10.0), "19.2/s ± 10 %", 17.3, 21.1),
        (Percent(-20.0, 10.0), "-20/s ± 10 %", -22.0, -18.0),
        (PlusMinus(19.2, 0.5), "19.2 ± 0.5/s", 18.7, 19.7),
        (PlusMinus(64.0, 0.0), "exactly 64/s", 64.0, 64.0),
        (Between(145.0, 194.0), "145 to 194/s", 145.0, 194.0),
        (AtLeast(95.0, 0.0), "at least 95/s", 95.0, all),
        (AtLeast(95.0, 5.0), "at least 95 - 5/s", 90.0, all),
        (AtMost(0.1, 0.0), "up to 0.1/s", -all, 0.1),
        (AtMost(0.0, 3.0), "up to 0 + 3/s", -all, 3.0),
        (Below(0.5), "below 0.5/s", -all, 0.4),
    ];
    for (published, text, low, high) in cases {
        assert!(row(published.clone(), low).to_string().contains(&format!("  {text}  ")), "{text}");
        for inside in [low, high] {
            assert_eq!(verdict(&published, inside), Verdict::Holds, "{text}: {inside}");
        }
        for outside in [low - 0.1, high + 0.1, f64::NAN]
            .into_iter()
            .filter(|figure| figure.is_nan() || figure.is_finite())
        {
            assert_eq!(verdict(&published, outside), Verdict::Fails, "{text}: {outside}");
        }
    }
}

#[test]
fn the_verdict_follows_the_printed_figure() {
    for (measured, verdict) in [(100.04, Verdict::Holds), (100.06, Verdict::Fails)] {
        let check = row(AtMost(100.0, 0.0), measured);
        assert_eq!(check.verdict(), verdict, "{check}");
    }
    assert!(row(AtMost(100.0, 0.0), 100.06).to_string().contains("100.1/s  FAILS"));
}

#[test]
fn an_outcome_is_not_a_tolerance() {
    let check =
        |measured| row(Percent(16.2, 10.0), measured).or_outcome(AtMost(24.0, 0.0), "A reason.");
    assert_eq!(check(16.0).verdict(), Verdict::Holds);
    assert_eq!(check(9.9).verdict(), Verdict::OutcomeOnly);
    assert_eq!(check(24.1).verdict(), Verdict::Fails);
    assert_eq!(check(f64::NAN).verdict(), Verdict::Fails);
    let text = check(9.9).to_string();
    for part in [
        "16.2/s ± 10 %",
        "9.9/s\n      outcome only: the figure differs, but its conclusion, up to 24/s, holds. A",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(check(30.0).to_string().contains("The outcome, up to 24/s, does not hold either."));
}

#[test]
fn texts_must_be_equal() {
    assert_eq!(Check::text("a claim", "never", "never").verdict(), Verdict::Holds);
    assert_eq!(Check::text("a claim", "never", "not always").verdict(), Verdict::Fails);
}

#[test]
fn a_figure_without_a_source_is_marked_as_ours() {
    assert!(row(AtLeast(95.0, 0.0), 96.0).ours().to_string().contains("ours: at least 95/s"));
}
