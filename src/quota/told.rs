/// The share of a limit of which operators were told last, so that each lesson is one line.
///
/// A first share is news below 0.9, and a later one below 0.8 of the one before. The whole limit is
/// news again from 0.97 on.
#[derive(Clone, Copy, Debug)]
pub struct Told(f64);

impl Told {
    /// Nothing was told: the whole limit is in use.
    pub const WHOLE: Self = Self(1.0);

    /// Returns whether a share of the limit is low enough for a line, and notes that it was told.
    #[must_use]
    pub fn falls_to(&mut self, share: f64) -> bool {
        let is_news = share < if self.0 < 1.0 { 0.8 * self.0 } else { 0.9 };
        if is_news {
            self.0 = share;
        }
        is_news
    }

    /// Returns whether a share ends what was told, and notes that its end was told.
    #[must_use]
    pub fn ends_at(&mut self, share: f64) -> bool {
        let is_news = self.0 < 1.0 && share >= 0.97;
        if is_news {
            *self = Self::WHOLE;
        }
        is_news
    }
}
