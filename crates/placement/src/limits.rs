//! How long names may be, and how many entries things may have, that whoever runs or uses a place writes.
//!
//! Readers of objects refuse what is longer; here it is merely compared for equality, or cut, so that nobody's word
//! makes a selection slow.

/// Longest name of a region, a zone or a provider, in bytes: that of a label's value, as which most of them are
/// written.
pub const NAME: usize = 63;
/// Longest key of a label or an annotation in bytes: a subdomain, a slash and a name.
pub const KEY: usize = 253 + 1 + NAME;
/// How many names a list may have: zones, providers, access restrictions.
pub const LISTED: usize = 256;
/// How many requirements a selector may have.
pub const REQUIREMENTS: usize = 256;
/// How many values the requirements of a selector may have together.
pub const VALUES: usize = 4096;
/// How many rules may be weighted.
pub const RULES: usize = 64;
/// How many rows a table of regions may have, and entries each row.
pub const ROWS: usize = 1024;
/// How many bytes the rows of a table of regions may have together.
pub const TABLE: usize = 256 * 1024;
