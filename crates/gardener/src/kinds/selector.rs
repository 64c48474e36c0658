//! Owns how a label selector inside an object is read.

use pilotage_placement::{Expression, Selector, SelectorError};

use crate::fields::{Field, FieldError};

/// Reads `matchLabels` and `matchExpressions`; nothing if the field is absent. What has the right shape but isn't a
/// selector is kept as an error: it fails the selections that need it, as in Gardener.
pub(super) fn read(
    field: &Field<'_>,
) -> Result<Option<Result<Selector, SelectorError>>, FieldError> {
    if !field.is_present() {
        return Ok(None);
    }
    let labels = field.get("matchLabels")?.string_map()?;
    let mut expressions = Vec::new();
    for item in field.get("matchExpressions")?.list()? {
        expressions.push(Expression {
            key: item.get("key")?.string()?.unwrap_or_default().to_owned(),
            operator: item
                .get("operator")?
                .string()?
                .unwrap_or_default()
                .to_owned(),
            values: item.get("values")?.strings()?,
        });
    }
    Ok(Some(Selector::new(&labels, &expressions)))
}
