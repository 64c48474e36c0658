//! Regular expressions of users over labels, matched against `key=value`.
//!
//! A label has no letters but those of ASCII, so an expression speaks of no others either: tables of Unicode are what
//! makes short expressions slow to read and large to keep. Size and depth are bounded as well, and with them the time
//! of a match. Must not know where an expression stands.

use std::cell::Cell;
use std::fmt;

use pilotage_api::limits;
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ast::{self, Ast, FlagsItem, FlagsItemKind};
use regex_syntax::hir::translate::TranslatorBuilder;

use crate::manifest::Position;

/// How many bytes a compiled expression may take.
const COMPILED: usize = 16 * 1024;
/// How deep groups may be nested.
const DEPTH: u32 = 32;
/// How many bytes of labels one expression is matched against in its life: with its size, that bounds the time. It is
/// read anew for each pod, and each time that a target's labels are shown.
const MATCHED: usize = 8 * 1024;

/// A regular expression over labels.
#[derive(Clone, Debug)]
pub struct LabelPattern {
    regex: Regex,
    /// How many bytes it may still be matched against.
    left: Cell<usize>,
    spent: Cell<bool>,
}

/// A text is no such expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    /// Where the mistake is; not known if the whole of it is too large.
    pub position: Position,
    /// What it is.
    pub reason: String,
}

impl LabelPattern {
    /// Reads an expression.
    pub fn parse(pattern: &str) -> Result<Self, PatternError> {
        let whole = |reason: String| PatternError {
            position: Position(None),
            reason,
        };
        limits::text(pattern, limits::PATTERN).map_err(|error| whole(error.to_string()))?;
        // regex tells positions only as a drawing of several lines; the parser behind it tells them as numbers.
        let mut parser = ast::parse::ParserBuilder::new();
        let ast = parser.nest_limit(DEPTH).build().parse(pattern);
        let ast = ast.map_err(|error| PatternError::at(error.span(), error.kind()))?;
        ast::visit(&ast, NoUnicode)?;
        TranslatorBuilder::new()
            .unicode(false)
            .utf8(false)
            .build()
            .translate(pattern, &ast)
            .map_err(|error| PatternError::at(error.span(), error.kind()))?;
        let regex = RegexBuilder::new(pattern)
            .unicode(false)
            .nest_limit(DEPTH)
            .size_limit(COMPILED)
            .build();
        let pattern = |regex| Self {
            regex,
            left: Cell::new(MATCHED),
            spent: Cell::new(false),
        };
        regex.map(pattern).map_err(|error| {
            whole(match error {
                regex::Error::CompiledTooBig(limit) => {
                    let what = "the expression is too large: compiled, it would take more than";
                    format!("{what} {limit} bytes")
                }
                other => other.to_string(),
            })
        })
    }

    /// Whether a label matches, anywhere in `key=value`; `None` once more was asked than can be answered.
    pub fn matches(&self, key: &str, value: &str) -> Option<bool> {
        let length = key.len().saturating_add(value.len()).saturating_add(1);
        let Some(left) = self.left.get().checked_sub(length) else {
            self.spent.set(true);
            return None;
        };
        self.left.set(left);
        Some(self.regex.is_match(format!("{key}={value}").as_bytes()))
    }

    /// Why some labels got no answer, if so.
    pub fn spent(&self) -> Option<PatternError> {
        let reason = || {
            let what = "there are more labels and selectors to compare with it than";
            format!("{what} {MATCHED} bytes")
        };
        self.spent.get().then(|| PatternError {
            position: Position(None),
            reason: reason(),
        })
    }
}

impl PatternError {
    fn at(span: &ast::Span, reason: &dyn fmt::Display) -> Self {
        Self {
            position: Position(Some((span.start.line as u64, span.start.column as u64))),
            reason: reason.to_string(),
        }
    }
}

/// Refuses an expression that asks for Unicode by a flag. What it needs it for is refused when it is translated.
struct NoUnicode;

impl NoUnicode {
    fn check(flags: &[FlagsItem]) -> Result<(), PatternError> {
        let unicode = FlagsItemKind::Flag(ast::Flag::Unicode);
        let asks = |pair: &[FlagsItem]| pair.iter().find(|item| item.kind == unicode).cloned();
        // All behind a minus are switched off.
        let on = flags.split(|item| item.kind == FlagsItemKind::Negation);
        match on.take(1).find_map(asks) {
            None => Ok(()),
            Some(item) => Err(PatternError::at(&item.span, &"a label has no Unicode")),
        }
    }
}

impl ast::Visitor for NoUnicode {
    type Output = ();
    type Err = PatternError;

    fn finish(self) -> Result<(), PatternError> {
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), PatternError> {
        match ast {
            Ast::Flags(set) => Self::check(&set.flags.items),
            Ast::Group(group) => group
                .flags()
                .map_or(Ok(()), |flags| Self::check(&flags.items)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mistakes_are_told_with_their_position() {
        for (pattern, position, reason) in [
            ("app=(", ", line 1, column 5", "unclosed group"),
            (
                "a\n[z-a]",
                ", line 2, column 2",
                "invalid character class range",
            ),
            ("^team=*+?{2}\\q", ", line 1, column 13", "escape"),
            ("\\p{Greek}", ", line 1, column 1", "Unicode not allowed"),
            ("a(?iu:b)", ", line 1, column 5", "no Unicode"),
            ("(?u)\\w", ", line 1, column 3", "no Unicode"),
            ("(?=ahead)", ", line 1, column 1", "look-around"),
            ("(\\w{500}){500}", "", "too large"),
            (
                &format!("{}a{}", "(?:".repeat(40), ")".repeat(40)),
                ", line 1, column 97",
                "nest",
            ),
            (&"a".repeat(1025), "", "has 1025 bytes, and may have 1024"),
        ] {
            let error = LabelPattern::parse(pattern).unwrap_err();
            assert_eq!(error.position.to_string(), position, "{pattern}: {error:?}");
            assert!(error.reason.contains(reason), "{pattern}: {error:?}");
            assert!(!error.reason.contains('\n'), "{pattern}: {error:?}");
        }
    }

    #[test]
    fn what_is_no_mistake_is_taken() {
        for (pattern, matches) in [
            ("", true),
            ("^team=", true),
            ("team=(a|b)$", true),
            ("(?i)TEAM=\\w", true),
            ("(?i-u)A$", true),
            ("[^a]=.", true),
            ("zone", false),
        ] {
            let pattern = LabelPattern::parse(pattern).unwrap();
            assert_eq!(pattern.matches("team", "a"), Some(matches), "{pattern:?}");
        }
    }

    #[test]
    fn it_is_matched_against_so_much_and_says_so() {
        let all = LabelPattern::parse("").unwrap();
        let (key, value) = ("k".repeat(99), "v".repeat(100));
        let answered = (0..50).filter(|_| all.matches(&key, &value).is_some());
        assert_eq!(answered.count(), MATCHED / 200);
        assert!(all.spent().unwrap().reason.contains("8192 bytes"));
        let all = LabelPattern::parse("").unwrap();
        assert_eq!(all.matches(&"k".repeat(90_000), ""), None);
        assert!(LabelPattern::parse("").unwrap().spent().is_none());
    }

    mod fuzz {
        use super::*;

        pilotage_absurd::properties! {
            #[test]
            fn never_panics(
                any in "\\PC{0,40}",
                near in "(\\(\\?[iuxs-]{0,2}:?|\\[\\^?|[a-z\\\\.*+?|)\\]]|\\{[0-9],?[0-9]{0,9}\\}){0,40}",
                key in "\\PC{0,20}",
            ) {
                for pattern in [&any, &near] {
                    match LabelPattern::parse(pattern) {
                        Ok(pattern) => _ = pattern.matches(&key, &any),
                        Err(error) => prop_assert!(error.reason.len() < 256, "{:?}", error),
                    }
                }
            }
        }
    }
}
