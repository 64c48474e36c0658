//! What users see, on real control planes: a source and three targets, each part of Pilotage a process of its own under
//! its own roles. One file a scenario; they share the clusters and take a namespace each.

mod demo;
mod hundred;
mod identity;
mod live;
mod parts;
mod place;
mod race;
mod refusals;
mod two_sources;
