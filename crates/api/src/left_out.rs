//! The mark on an object that is kept in memory without some of its parts, since they are too heavy. It is never
//! written to an API server. What its words mean is up to who keeps the object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The mark's key among the annotations. No API server takes it for an annotation's, so that nobody else can write it.
pub const MARK: &str = "left out:";

/// The word of the mark; none, if nothing is missing.
pub fn word(meta: &ObjectMeta) -> Option<&str> {
    let annotations = meta.annotations.as_ref()?;
    annotations.get(MARK).map(String::as_str)
}

/// Marks an object by this word.
pub fn mark(meta: &mut ObjectMeta, word: &str) {
    let annotations = meta.annotations.get_or_insert_default();
    annotations.insert(MARK.to_owned(), word.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotations::is_qualified_name;

    #[test]
    fn nobody_else_can_write_the_mark() {
        assert!(!is_qualified_name(MARK));
    }

    #[test]
    fn the_last_word_is_read() {
        let mut meta = ObjectMeta::default();
        assert_eq!(word(&meta), None);
        mark(&mut meta, "words");
        mark(&mut meta, "all");
        assert_eq!(word(&meta), Some("all"));
    }
}
