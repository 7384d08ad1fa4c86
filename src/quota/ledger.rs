use std::sync::atomic::Ordering;

use super::bucket::Take;
use super::finding::Findings;
use super::reserved::{Amounts, Change, Reserved};
use super::{Cost, Dimension, Quota, Usage};

/// The account of a quota: what is taken, charged and given back. Nothing here waits.
impl Quota {
    /// Takes the amounts in every dimension, or in none. Wakes no waiter and sets no signal: the
    /// line may be locked.
    #[inline]
    pub(super) fn take(&self, amounts: &Amounts, output: u32, now: u64) -> Take {
        if !self.enter() {
            return Take::Refused;
        }
        let mut all = Take::Taken;
        for (index, bucket) in self.buckets.iter().enumerate() {
            let Some(bucket) = bucket else { continue };
            match bucket.take(amounts[index], now) {
                Take::Taken => {}
                Take::Last => all = Take::Last,
                Take::Refused => {
                    self.undo(amounts, index);
                    return Take::Refused;
                }
            }
        }
        if output > 0 {
            self.unsettled.fetch_add(u64::from(output), Ordering::AcqRel);
        }
        all
    }

    /// Takes the amounts although they do not fit. The levels become a debt.
    pub(super) fn take_anyway(&self, amounts: &Amounts, output: u32, now: u64) {
        self.enter_anyway();
        for (bucket, amount) in self.buckets.iter().zip(amounts) {
            if let Some(bucket) = bucket {
                bucket.change(0, u64::from(*amount), now);
            }
        }
        self.unsettled.fetch_add(u64::from(output), Ordering::AcqRel);
    }

    /// Takes a place among the attempts in flight, also above the limit.
    pub(super) fn enter_anyway(&self) {
        if self.concurrency != u32::MAX {
            self.in_flight.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Gives back what was taken before the dimension at `until` refused.
    #[cold]
    fn undo(&self, amounts: &Amounts, until: usize) {
        for (bucket, amount) in self.buckets.iter().zip(amounts).take(until) {
            if let Some(bucket) = bucket {
                bucket.give_back(*amount);
            }
        }
        self.exit();
    }

    /// Takes a place among the attempts in flight.
    #[inline]
    fn enter(&self) -> bool {
        if self.concurrency == u32::MAX {
            return true;
        }
        let mut in_flight = self.in_flight.load(Ordering::Relaxed);
        while in_flight < u64::from(self.concurrency) {
            match self.in_flight.compare_exchange_weak(
                in_flight,
                in_flight + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(seen) => in_flight = seen,
            }
        }
        false
    }

    #[inline]
    fn exit(&self) {
        if self.concurrency != u32::MAX {
            self.in_flight.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Takes part in the modification order of every word: see [`Line`](super::line::Line).
    pub(super) fn touch(&self) {
        self.buckets.iter().flatten().for_each(super::bucket::Bucket::touch);
        self.in_flight.fetch_add(0, Ordering::AcqRel);
    }

    /// Charges a usage in place of the reservation. Returns the tokens charged before and now.
    #[inline]
    pub(crate) fn charge_usage(
        &self,
        cost: &Cost<'_>,
        reserved: &mut Reserved,
        usage: Usage,
        now: u64,
    ) -> (u64, u64) {
        if self.is_shadow && reserved.is_uncharged() {
            return (0, 0);
        }
        let (had_input, had_output) = (reserved.is_input_charged(), reserved.is_output_charged());
        let change = reserved.charge(cost, &self.charge, usage);
        if !had_input && reserved.is_input_charged() && cost.known_input().is_none() {
            self.estimate_of(cost).record_input(u64::from(change.input.1));
        }
        let (before, charged) = (change.tokens_before(), change.tokens_now());
        let settles = !had_output && reserved.is_output_charged();
        let reserved_output = change.output.0;
        if !self.charge.refunds() {
            if settles {
                self.estimate_output(cost, change.output.1);
                self.settle_output(reserved_output);
            }
            return (before, before);
        }
        self.change(&change, reserved.is_reported() && !self.charge.reserves_maximum(), now);
        if settles {
            self.settle_output(reserved_output);
        }
        if change.gives_back() {
            self.line.wake_first();
        }
        (before, charged)
    }

    /// Changes the charged tokens. A reported level has the actual input already, so if the answer
    /// `is_reported`, no input goes back to such a level. Wakes no waiter.
    #[inline]
    fn change(&self, change: &Change, is_reported: bool, now: u64) {
        let wide = |(from, to): (u32, u32)| (u64::from(from), u64::from(to));
        let (input, output) = (wide(change.input), wide(change.output));
        let changes = [(0, 0), input, output, (input.0 + output.0, input.1 + output.1)];
        let given_back = input.0.saturating_sub(input.1);
        for (dimension, (from, to)) in Dimension::ALL.into_iter().zip(changes) {
            let Some(bucket) = &self.buckets[dimension.index()] else { continue };
            let has_input = matches!(dimension, Dimension::Input | Dimension::Tokens);
            let kept = if is_reported && has_input && bucket.pace().is_reported() {
                given_back
            } else {
                0
            };
            bucket.change(from - kept, to, now);
        }
    }

    /// Counts the output of an attempt for the estimate, if calls reserve an estimate.
    #[inline]
    fn estimate_output(&self, cost: &Cost<'_>, output: u32) {
        if !self.charge.reserves_maximum() {
            self.estimate_of(cost).record_output(u64::from(output));
        }
    }

    /// Counts reserved output as settled. The buckets are changed before: a level that is learned
    /// in between is too low and not too high.
    #[inline]
    fn settle_output(&self, output: u32) {
        if output > 0 {
            self.unsettled.fetch_sub(u64::from(output), Ordering::AcqRel);
        }
    }

    /// Ends an attempt that was sent. What it has reserved or charged stands.
    #[inline]
    pub(crate) fn end(&self, cost: &Cost<'_>, reserved: Reserved) {
        if self.is_shadow && reserved.is_uncharged() {
            return self.exit();
        }
        if !reserved.is_output_charged() {
            self.settle_output(reserved.output());
        } else if self.charge.refunds() {
            self.estimate_output(cost, reserved.output());
        }
        if self.concurrency != u32::MAX {
            self.exit();
            self.line.wake_first();
        }
    }

    /// Ends an attempt that was not sent: gives everything back.
    #[cold]
    pub(crate) fn cancel(&self, cost: &Cost<'_>, reserved: Reserved) {
        if self.is_shadow && reserved.is_uncharged() {
            return self.exit();
        }
        if let Some(bucket) = &self.buckets[Dimension::Requests.index()] {
            bucket.give_back(1);
        }
        let (input, output) = (reserved.input(cost), reserved.output());
        self.change(&Change { input: (input, 0), output: (output, 0) }, false, 0); // adds nothing
        if !reserved.is_output_charged() {
            self.settle_output(output);
        }
        self.exit();
        self.line.wake_first();
    }

    /// Ends an attempt that the provider refused. Tokens that no usage has charged are given back,
    /// but never to a reported level, which does not contain them. If the caller's own limit refused it
    /// and the answer has reported no level, every level becomes 0, and nothing refills before `resume`:
    /// the provider counts nothing during a hold that could be used after it. The same holds for a level of
    /// which the answer says no more than that it is 0. Otherwise the two times do not count. Returns what is
    /// worth a line.
    #[cold]
    pub(crate) fn refuse(
        &self,
        cost: &Cost<'_>,
        reserved: Reserved,
        own_limit: bool,
        resume: u64,
        now: u64,
    ) -> Findings {
        let is_uncharged = self.is_shadow && reserved.is_uncharged();
        let amounts = if is_uncharged { Reserved::NONE } else { reserved }.amounts(cost);
        let input = if reserved.is_input_charged() { 0 } else { reserved.input(cost) };
        let output = if reserved.is_output_charged() { 0 } else { reserved.output() };
        for (dimension, bucket) in Dimension::ALL.into_iter().zip(&self.buckets) {
            let Some(bucket) = bucket else { continue };
            let (mut input, mut output) = (u64::from(input), u64::from(output));
            // A reported level has no part of the refused input, nor of a maximum that the provider
            // charges at the start.
            if reserved.is_reported() && bucket.pace().is_reported() {
                input = 0;
                output = if self.charge.reserves_maximum() { 0 } else { output };
            }
            let back = match dimension {
                Dimension::Requests => 0,
                Dimension::Input => input,
                Dimension::Output => output,
                Dimension::Tokens => input + output,
            };
            bucket.change(back, 0, now);
        }
        self.settle_output(output);
        let mut findings = [None; 4];
        if own_limit {
            for dimension in Dimension::ALL {
                let amount = amounts[dimension.index()];
                findings[dimension.index()] =
                    self.empty(dimension, amount, reserved.is_reported(), resume, now);
            }
        }
        self.exit();
        self.line.wake_first();
        if own_limit || resume > now {
            self.held_until.fetch_max(resume, Ordering::Relaxed);
            self.wake_late(now);
        }
        findings
    }

    /// Lowers a level to `told`, less what the provider has not charged yet.
    pub(super) fn lower(&self, dimension: Dimension, told: u64, now: u64) {
        let Some(bucket) = &self.buckets[dimension.index()] else { return };
        let uncharged = match dimension {
            Dimension::Output | Dimension::Tokens if !self.charge.reserves_maximum() => {
                self.unsettled.load(Ordering::Relaxed)
            }
            _ => 0,
        };
        bucket.lower_to(signed(told).saturating_sub(signed(uncharged)), now);
    }
}

fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}
