//! Distances by name, from the table of worked examples.

use pilotage_placement::{Distance, Orientation, Region, Strategy, select};
use serde::Deserialize;

use crate::world::{candidate, request, strategy};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    candidate: String,
    request: String,
    /// Of the candidate and of the request.
    bases: (String, String),
    words: (Option<String>, Option<String>),
    distance: u64,
}

fn cases() -> Vec<Case> {
    serde_saphyr::from_str(include_str!("../cases/distances.yaml")).unwrap()
}

fn word(orientation: Option<Orientation>) -> Option<String> {
    orientation.map(|orientation| format!("{orientation:?}").to_lowercase())
}

#[test]
fn by_name() {
    let cases = cases();
    assert_eq!(cases.len(), 48);
    for case in cases {
        let (there, here) = (Region::new(&case.candidate), Region::new(&case.request));
        assert_eq!((there.base(), here.base()), case.bases);
        let words = (word(there.orientation()), word(here.orientation()));
        assert_eq!(words, case.words, "{} {}", case.candidate, case.request);
        assert_eq!(there.distance(&here), case.distance, "{there} from {here}");
        assert_eq!(here.distance(&there), case.distance, "{here} from {there}");
    }
}

#[test]
fn a_foreign_provider_is_two_farther() {
    let settings = strategy(Strategy::MinimalDistance);
    for case in cases() {
        let mut request = request("foo", &case.request);
        request.providers = pilotage_placement::Providers::Any;
        let candidates = [
            candidate("own", "foo", &case.candidate),
            candidate("foreign", "bar", &case.candidate),
        ];
        let selection = select(&request, &candidates, &settings);
        let found: Vec<_> = selection
            .ranking
            .iter()
            .map(|one| (&*one.name, one.distance.unwrap()))
            .collect();
        let expected = [
            ("own", Distance::Name(case.distance)),
            ("foreign", Distance::Name(case.distance + 2)),
        ];
        assert_eq!(found, expected, "{case:?}");
    }
}
