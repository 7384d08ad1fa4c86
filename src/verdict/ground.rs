use super::answers::{Flag, Ground};
use super::{Cut, Health, Verdict};

/// The ground of a verdict, and the combination of the verdicts of composed classifiers.
impl Verdict {
    /// Returns this verdict as a statement on an error.
    pub(crate) const fn stated(self) -> Self {
        self.with_ground(Ground::Stated)
    }

    /// Returns this verdict as a statement. A verdict on a cut attempt stays one.
    pub(crate) const fn as_fact(self) -> Self {
        match self.answers.ground() {
            Ground::Stated => self,
            Ground::Cut | Ground::CutDefault => self.with_ground(Ground::Cut),
        }
    }

    /// Returns this verdict as one on a cut attempt. Use it for an error that tells of a cut, such
    /// as [`Elapsed`](crate::timeout::Elapsed): [`cut_is`](crate::classify::ClassifyExt::cut_is)
    /// then replaces the verdict, and in a pair of classifiers it counts as the opinion on a cut.
    pub const fn on_cut(self) -> Self {
        match self.answers.ground() {
            Ground::Stated | Ground::Cut => self.with_ground(Ground::Cut),
            Ground::CutDefault => self,
        }
    }

    /// Returns this verdict as the default for a cut attempt.
    pub(crate) const fn cut_default(self) -> Self {
        self.with_ground(Ground::CutDefault)
    }

    /// Returns this verdict as one that nobody has chosen for the failure.
    pub(crate) const fn by_default(self) -> Self {
        self.with(Flag::ByDefault, true)
    }

    /// Returns whether nobody has judged the failure.
    pub(crate) const fn is_by_default(self) -> bool {
        self.answers.is(Flag::ByDefault)
    }

    /// Returns this verdict on a cut, but of an attempt that has surely sent nothing. So it may be sent
    /// again, and nothing is known of the upstream.
    pub(crate) const fn unsent(self) -> Self {
        let ground = Ground::Cut;
        self.with_health(Health::Unknown).with(Flag::Again, true).not_sent().with_ground(ground)
    }

    /// Returns this verdict with what `other` states of the same request, whatever its end: that it may be executed
    /// twice.
    pub(crate) const fn on_request_of(self, other: Self) -> Self {
        match (other.is_keyed(), other.is_idempotent()) {
            (true, _) => self.keyed(),
            (false, true) => self.idempotent(),
            (false, false) => self,
        }
    }

    /// Returns this verdict on a call, with whether nobody has stated that its request has a key or has none.
    pub(crate) const fn with_unknown_key(self, is_unknown: bool) -> Self {
        self.with(Flag::UnknownKey, is_unknown)
    }

    /// Returns whether the request may have a key that nobody has stated.
    pub(crate) const fn may_have_key(&self) -> bool {
        self.is_keyed() || self.answers.is(Flag::UnknownKey) && !self.is_idempotent()
    }

    /// Returns this verdict for several attempts, one of which may have had an effect.
    pub(crate) const fn of_several(self) -> Self {
        self.with(Flag::NotSent, false).with(Flag::NoEffect, false)
    }

    /// Returns this verdict for a request in doubt: it must not be sent again, and no key and no kind of the request
    /// makes that harmless.
    pub(crate) const fn in_doubt(self) -> Self {
        self.not_again().with(Flag::Idempotent, false).with(Flag::Keyed, false)
    }

    /// Returns whether the upstream ended the request because its time was over.
    pub(crate) const fn is_late(self) -> bool {
        self.answers.is(Flag::Late)
    }

    /// Returns this verdict on an attempt that had all the time of its call.
    pub(crate) const fn in_time(self) -> Self {
        self.with(Flag::Late, false)
    }

    /// Returns this verdict with the answer of `on_cut`, which is that on a cut of the same request, to the question
    /// whether the request may be sent again.
    pub(crate) const fn again_as(self, on_cut: Self) -> Self {
        let is_once = on_cut.is_not_repeatable();
        self.with(Flag::Again, on_cut.is_again()).with(Flag::NotRepeatable, is_once)
    }

    /// Returns this verdict on an attempt whose answer had begun, so it was executed at least in part. The error can
    /// say neither that it was not sent nor that it had no effect, and no longer proves that it may be sent again:
    /// `on_cut`, which is the verdict on a cut of the same request, has to allow that too.
    #[cfg(feature = "stream")]
    pub(crate) const fn after_content(self, on_cut: Self) -> Self {
        let verdict = if on_cut.is_again() { self } else { self.with(Flag::Again, false) };
        verdict.of_several().not_told()
    }

    /// Returns whether the classifier stated this verdict.
    pub(crate) const fn is_stated(self) -> bool {
        matches!(self.answers.ground(), Ground::Stated | Ground::Cut)
    }

    /// Returns whether this verdict is about a cut attempt.
    pub(crate) const fn is_on_cut(self) -> bool {
        matches!(self.answers.ground(), Ground::Cut | Ground::CutDefault)
    }

    /// Returns whether nobody knows if the failed or cut request was executed, so that it must not be
    /// sent again. An upstream that works has answered, and its answer says what happened unless the program
    /// cannot read it. An idempotent request may be sent again later, whatever happened.
    pub(crate) const fn is_in_doubt(self, cut: Option<Cut>) -> bool {
        let has_failed = matches!(self.health(), Health::Failing | Health::Throttling);
        let is_allowed = self.is_again() || self.is_not_repeatable();
        let is_safe = is_allowed || self.is_without_effect() || self.is_idempotent();
        let is_unknown = has_failed || self.answers.is(Flag::NotTold);
        !is_safe && (is_unknown || cut.is_some() || self.is_on_cut())
    }

    /// Combines this verdict with that of the second classifier of a pair, on the same failure.
    pub(crate) const fn or(self, second: Self) -> Self {
        if second.overrides(self) { second } else { self }
    }

    /// Returns whether this verdict replaces that of the first classifier of a pair.
    ///
    /// Only one classifier may know that an error tells of a cut. A verdict that protects a cut
    /// request therefore replaces any statement that does not, while a default that protects it
    /// yields only to a statement on cuts.
    const fn overrides(self, first: Self) -> bool {
        let is_cut_stated = matches!(first.answers.ground(), Ground::Cut);
        match (self.answers.ground(), self.is_again()) {
            (Ground::Cut, false) => first.is_again() || !first.is_stated(),
            (Ground::Cut, true) => !first.is_stated(),
            (Ground::CutDefault, false) => first.is_again() && !is_cut_stated,
            (Ground::CutDefault, true) => false,
            (Ground::Stated, _) => first.is_again() && !first.is_stated(),
        }
    }
}
