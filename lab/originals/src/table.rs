use crate::script::{Difference, Script};

/// Returns why the crate differs from the original on purpose.
pub(crate) fn explain<'s>(script: &'s Script, difference: &Difference) -> Option<&'s str> {
    match script {
        Script::Urllib3 { value, wait, .. } => {
            let value = value.trim();
            if value.starts_with(['+', '-']) || wait.is_some_and(|wait| wait <= 0.0) {
                return Some(
                    "a wait of zero or in the past is no hint, and urllib3 says 0 seconds",
                );
            }
            if wait.is_none() && value.parse::<f64>().is_ok_and(f64::is_finite) {
                return Some(
                    "a fraction of a second is read, because servers send it, and urllib3 refuses the answer",
                );
            }
            None
        }
        Script::Opossum { percent, .. } if rounds_up(*percent) => Some(
            "opossum opens above its percentage, and rounds a share of exactly 28, 55 or 56 % up",
        ),
        Script::Opossum { .. } => {
            let closing = script.first_closing()?;
            (closing < difference.at).then_some(
                "a breaker that closes counts anew, and opossum keeps its counts and those of refused calls",
            )
        }
        Script::Smithy(smithy) => {
            let gift = smithy.first_gift()?;
            (gift < difference.at).then_some(
                "a failed retry has paid for ever, and the SDK returns its cost if the next call succeeds at once",
            )
        }
        Script::Mongo(mongo) if mongo.has_other_failures() => Some(
            "a failure without an overload has the attempts and delays of the policy, and pymongo repeats it once, at once",
        ),
        Script::Vector(vector) => vector.why.as_deref(),
        _ => None,
    }
}

/// Returns whether a share of calls that is exactly this percentage is more in floating point.
fn rounds_up(percent: u32) -> bool {
    (1..=100_u32).any(|calls| {
        let failed = f64::from(percent * calls / 100);
        (percent * calls).is_multiple_of(100)
            && failed / f64::from(calls) * 100.0 > f64::from(percent)
    })
}
