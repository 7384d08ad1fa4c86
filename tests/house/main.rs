//! Laws of the repository: its layers, its links and its guide.

mod guide;
mod layers;
mod links;
