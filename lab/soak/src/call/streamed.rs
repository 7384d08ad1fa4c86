//! Streams that are opened again.

use std::pin::pin;

use futures_util::future::Either;
use futures_util::{StreamExt, stream};
use resile::stream::{Part, Resumption};
use resile::{Attempt, StreamResilienceExt, retry_stream};

use super::{Call, Outcome};
use crate::operation::Down;

impl Call<'_> {
    pub(super) async fn stream(&self) -> Outcome<()> {
        let (job, dice) = (self.job, &self.dice);
        let host = Self::host_of(job);
        let open = |attempt: Attempt| {
            let opening = job.begin(attempt.number(), dice);
            let (length, end, limit) = (dice.below(5), dice.below(6), dice.time(32));
            async move {
                opening.await?;
                let items = stream::iter((0..length).map(Ok));
                let rest = match end {
                    0 => Either::Left(stream::iter(vec![Err(Down::broken())])),
                    1 => Either::Right(stream::pending()),
                    _ => Either::Left(stream::iter(vec![Ok(9)])),
                };
                Ok(items.chain(rest).idle_timeout(limit).on(&host.upstream))
            }
        };
        let parts = |item: &u64| match item {
            0 | 1 => Part::Preamble,
            3 => Part::Complete,
            9 => Part::End,
            _ => Part::Content,
        };
        let resumes = dice.below(3);
        let resumption = |_: Option<&Down>| match resumes {
            0 => Resumption::Fail,
            1 => Resumption::Restart(7),
            _ => Resumption::Resume,
        };
        let target = host.target(job.tokens, dice);
        let call = retry_stream(open, self.policy(), &self.token).on(target);
        let call = call.with_parts(parts).with_resumption(resumption).with_required_end();
        let mut call = pin!(if dice.is_one_in(2) { call.with_attempts_renewed() } else { call });
        // A stream that is opened again and again has no end of its own.
        for _ in 0..200 {
            match call.next().await {
                Some(item) => drop(item?),
                None => return Self::returned(job, Ok(())),
            }
        }
        self.token.cancel();
        while let Some(item) = call.next().await {
            item?;
        }
        Self::returned(job, Ok(()))
    }
}
