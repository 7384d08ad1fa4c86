use crate::script::Script;

/// Returns why the crate differs from the original on purpose.
pub(crate) fn explain(script: &Script) -> Option<&'static str> {
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
        _ => None,
    }
}
