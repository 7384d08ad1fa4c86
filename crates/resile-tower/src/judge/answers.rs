use std::error::Error;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

use resile::classify::Cut;
use resile::error::Boxed;
use resile::{GaveUp, Verdict};

use super::sealed::{Judge, Rule};
use super::{Judged, is_failure};

/// Judges answers by a function, and by the judge `J` the errors and the answers that the function leaves to
/// it.
#[derive(Clone, Copy)]
pub struct Answers<J, F> {
    pub(crate) errors: J,
    pub(crate) answers: F,
}

impl<J: fmt::Debug, F> fmt::Debug for Answers<J, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").field("errors", &self.errors).finish_non_exhaustive()
    }
}

impl<Req, J: Judge<Req>, F: Clone> Judge<Req> for Answers<J, F> {
    type Rule = Answers<J::Rule, F>;

    fn rule(&self, request: &Req) -> Self::Rule {
        Answers { errors: self.errors.rule(request), answers: self.answers.clone() }
    }

    fn limit(&self, request: &mut Req) -> Option<Duration> {
        self.errors.limit(request)
    }

    fn watch(&self, request: &Req, site: &'static Location<'static>) {
        self.errors.watch(request, site);
    }
}

impl<T, E, L, F> Rule<T, E> for Answers<L, F>
where
    L: Rule<T, E>,
    F: Fn(&T) -> Option<Verdict>,
{
    fn answer(&self, answer: &T) -> Option<Judged> {
        // Asked for each answer, because a judge of HTTP reads the limits in its headers too.
        let below = self.errors.answer(answer);
        let Some(verdict) = (self.answers)(answer) else { return below };
        // That a request does no harm twice is no matter of the answer.
        let on_cut = self.errors.cut(Cut::Deadline);
        let is_idempotent = on_cut.is_some_and(|verdict| verdict.is_idempotent());
        let verdict = if is_idempotent { verdict.idempotent() } else { verdict };
        is_failure(verdict).then(|| match below {
            Some(judged) => judged.with_verdict(verdict),
            None => Judged::new(Box::new(BadAnswer), Some(verdict), Some("answer".into())),
        })
    }

    fn error(&self, error: E, is_sent: bool) -> Judged {
        self.errors.error(error, is_sent)
    }

    fn cut(&self, cut: Cut) -> Option<Verdict> {
        self.errors.cut(cut)
    }

    fn place(&self) -> Option<String> {
        self.errors.place()
    }

    fn note(answer: &mut T, gave_up: GaveUp<Boxed>) {
        L::note(answer, gave_up);
    }
}

/// The words on an answer that has none itself.
#[derive(Debug)]
struct BadAnswer;

impl fmt::Display for BadAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer counts as a failure")
    }
}

impl Error for BadAnswer {}
