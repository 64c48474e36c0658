//! A page of a list, as an API server sends it: its objects, not read yet, and where the list goes on. It knows nothing
//! of what is kept of them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::position::{Position, is_token};
use super::run::Interruption;

#[derive(Deserialize)]
struct Text<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

/// A page whose objects aren't read yet.
pub(super) struct Page<'a> {
    metadata: ListMeta,
    pub(super) items: Vec<&'a RawValue>,
}

/// Where a list goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GoesOn {
    /// In the page that this token stands for.
    At(String),
    /// Nowhere: this was all there is at this version, as the server writes it, and as a position of a watch.
    No(String, Position),
}

impl<'a> Page<'a> {
    /// Reads one, of which the door has let a bounded number of bytes in.
    pub(super) fn read(text: &'a str) -> Result<Self, Interruption> {
        let Text { metadata, items } = serde_json::from_str(text).map_err(Interruption::Page)?;
        let items = items.unwrap_or_default();
        Ok(Self { metadata, items })
    }

    /// Where the list goes on.
    pub(super) fn goes_on(self) -> Result<GoesOn, Interruption> {
        let token = self.metadata.continue_.filter(|token| !token.is_empty());
        if let Some(token) = token {
            return if is_token(&token) {
                Ok(GoesOn::At(token))
            } else {
                Err(Interruption::Token)
            };
        }
        let version = self.metadata.resource_version;
        let version = version.filter(|version| !version.is_empty());
        let version = version.ok_or(Interruption::NoVersion)?;
        let position = Position::parse(&version).ok_or(Interruption::Version)?;
        Ok(GoesOn::No(version, position))
    }
}

#[cfg(test)]
mod fuzz {
    use pilotage_absurd::{json, text};
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::position::TOKEN;
    use super::*;

    /// A page with an object, of any form.
    fn pages() -> BoxedStrategy<String> {
        let page = |page: (String, String, bool)| {
            let (token, version, last) = page;
            let token = if last { String::new() } else { token };
            json!({
                "kind": "PodList", "apiVersion": "v1",
                "metadata": { "continue": token, "resourceVersion": version, "remainingItemCount": 7 },
                "items": [{ "metadata": { "name": "web" } }, null],
            })
        };
        let versions = prop_oneof!["[0-9]{1,30}", text::text()];
        let page = (text::text(), versions, any::<bool>()).prop_map(page);
        let page = page.boxed();
        prop_oneof![
            3 => page.clone(),
            1 => json::extreme(page.clone()),
            1 => json::junk_in(page),
        ]
        .prop_map(|page| page.to_string())
        .boxed()
    }

    pilotage_absurd::properties! {
        #[test]
        fn a_page_goes_on_at_a_short_token_or_ends_at_a_version_or_is_refused(
            text in prop_oneof![4 => pages(), 1 => json::claimed(), 1 => text::text()],
        ) {
            let read = Page::read(&text).and_then(|page| {
                assert!(page.items.iter().all(|item| text.contains(item.get())));
                page.goes_on()
            });
            match read {
                Ok(GoesOn::At(token)) => prop_assert!(!token.is_empty() && token.len() <= TOKEN),
                Ok(GoesOn::No(version, position)) => {
                    let number: u64 = version.parse().unwrap();
                    prop_assert_eq!(number.to_string(), position.to_string());
                }
                Err(error) => prop_assert!(error.to_string().len() <= 256, "{}", error),
            }
        }
    }
}
