//! Which fields of which plugins were used with effect: not merely present, but so that an answer would have been
//! another one without them, on pods of which both schedulers said the same. A run that never saw that of a field has
//! tested nothing of it, and fails. So does one in which what is to be common was rare.

mod effect;
mod field;
mod rows;
mod shares;
mod table;

pub use self::effect::Effects;
pub use self::field::{Change, Field, On, Point, When};
pub use self::rows::rows;
pub use self::table::{Table, Tally};
