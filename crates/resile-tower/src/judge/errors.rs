use std::borrow::Cow;

use resile::classify::Cut;
use resile::{Classify, Verdict};

use super::Judged;
use super::sealed::{Judge, Rule};
use crate::BoxError;

/// Judges errors by a classifier. Each answer is good.
#[derive(Clone, Copy, Debug)]
pub struct Errors<C>(pub(crate) C);

impl<Req, C: Clone> Judge<Req> for Errors<C> {
    type Rule = Self;

    fn rule(&self, _: &Req) -> Self {
        self.clone()
    }
}

impl<T, E, C> Rule<T, E> for Errors<C>
where
    E: Into<BoxError>,
    C: Classify<E>,
{
    fn answer(&self, _: &T) -> Option<Judged> {
        None
    }

    fn error(&self, error: E, _: bool) -> Judged {
        let verdict = self.0.classify(&error);
        let error_type = self.0.error_type(&error).map(|word| Cow::Owned(word.into_owned()));
        let error_type = error_type.or_else(|| Some(Cow::Borrowed(std::any::type_name::<E>())));
        Judged::new(error.into(), verdict, error_type)
    }

    fn cut(&self, cut: Cut) -> Option<Verdict> {
        self.0.classify_cut(cut)
    }
}
