//! The plugins, one a file, each with its reasons, its events and its hints. Knows nothing of profiles that
//! use them, except for the stock set below.

mod well_formed;

pub use self::well_formed::WellFormed;
