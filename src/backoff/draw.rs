use rand::{Rng, TryRng};

/// The thread's generator, looked up only when something is drawn.
pub(crate) struct Draw;

impl TryRng for Draw {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(rand::rng().next_u32())
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(rand::rng().next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        rand::rng().fill_bytes(bytes);
        Ok(())
    }
}
