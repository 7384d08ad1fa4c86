//! Published claims about retries and quotas, as models that use the types of the crate. They are
//! seeded and run in virtual time. The program `storm` prints and draws them, the tests assert them,
//! and the page of `lab/browser` runs them in a browser.

pub mod catalogue;
pub mod claims;
pub mod plots;
pub mod tally;
