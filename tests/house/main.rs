//! Laws of the repository: its layers, its links, its guide, its front page and its manifests.

mod front_page;
mod guide;
mod layers;
mod links;
mod manifests;
mod overview;
