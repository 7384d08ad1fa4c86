use resile::{Health, Verdict};

use crate::Idempotency;

/// The meaning of a code: a row of `data/errors.csv`.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    again: Again,
    state: State,
    /// True if nobody knows whether the request was executed, although the upstream is not known to fail.
    is_in_doubt: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    Always,
    IfIdempotent,
    Never,
    /// Never, and the request surely was not executed.
    Refused,
}

/// The state of the upstream, and whose limit it is.
#[derive(Clone, Copy)]
pub(crate) enum State {
    Healthy,
    Failing,
    /// The limit of this caller.
    OwnLimit,
    /// The limit of all callers together.
    Overload,
    Unknown,
}

/// Creates a rule for a request that surely was not executed.
pub(crate) const fn always(state: State) -> Rule {
    Rule { again: Again::Always, state, is_in_doubt: false }
}

/// Creates a rule for a request that may have been executed.
pub(crate) const fn if_idempotent(state: State) -> Rule {
    Rule { again: Again::IfIdempotent, state, is_in_doubt: false }
}

/// Creates a rule for a request that fails again.
pub(crate) const fn never(state: State) -> Rule {
    Rule { again: Again::Never, state, is_in_doubt: false }
}

/// Creates a rule for a request that fails again and surely was not executed, such as a refused login.
pub(crate) const fn refused(state: State) -> Rule {
    Rule { again: Again::Refused, state, is_in_doubt: false }
}

impl Rule {
    pub(crate) const fn verdict(self, idempotency: Idempotency) -> Verdict {
        let verdict = match self.state {
            State::Healthy => Verdict::transient().with_health(Health::Healthy),
            State::Failing => Verdict::transient(),
            State::OwnLimit => Verdict::throttled(),
            State::Overload => Verdict::overloaded(),
            State::Unknown => Verdict::transient().with_health(Health::Unknown),
        };
        let verdict = match (self.again, idempotency) {
            (Again::Always, _) | (Again::IfIdempotent, Idempotency::Idempotent) => verdict,
            _ => verdict.not_again(),
        };
        let verdict =
            if matches!(self.again, Again::Refused) { verdict.without_effect() } else { verdict };
        match idempotency {
            Idempotency::Idempotent => verdict.idempotent(),
            // As after a cut, nobody knows the end.
            Idempotency::NotIdempotent if self.is_in_doubt => verdict.on_cut(),
            Idempotency::NotIdempotent => verdict,
        }
    }

    /// Returns the verdict on a request that is executed whole or not at all. So it had no effect if it surely
    /// was not executed.
    pub(crate) const fn whole(self, idempotency: Idempotency) -> Verdict {
        let verdict = self.verdict(idempotency);
        if self.is_always() { verdict.without_effect() } else { verdict }
    }

    /// Adds that nobody knows whether the request was executed. A failing upstream and one that is
    /// overloaded say it already.
    pub(crate) const fn in_doubt(self) -> Self {
        Self { is_in_doubt: true, ..self }
    }

    /// Returns whether the request surely was not executed and may be sent again.
    pub(crate) const fn is_always(self) -> bool {
        matches!(self.again, Again::Always)
    }

    /// Returns whether a database that undoes each statement that fails has kept nothing.
    pub(crate) const fn is_undone(self) -> bool {
        match self.again {
            Again::Always | Again::Refused => true,
            Again::IfIdempotent => false,
            Again::Never => matches!(self.state, State::Healthy),
        }
    }

    /// Returns the rule with another state.
    pub(crate) const fn with(self, state: State) -> Self {
        Self { state, ..self }
    }

    pub(crate) const fn state(self) -> State {
        self.state
    }
}
