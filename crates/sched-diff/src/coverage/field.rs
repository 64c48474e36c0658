//! A field that a plugin reads, and how an object looks without it.

use serde_json::Value;

/// In which object a field stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The pod that looks for a node.
    Pod,
    /// A node.
    Node,
    /// A pod on a node.
    Running,
    /// An object of another kind.
    Object(&'static str),
    /// The configuration.
    Profile,
}

/// Which of a plugin's answers the field is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Refusals, also those of `PreFilter`.
    Filter,
    /// Scores.
    Score,
    /// Who is evicted, and for which node.
    Preemption,
}

/// Which values of the field are meant.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// All.
    Always,
    /// Those that are this text.
    Is(&'static str),
    /// Those with this text under this key; an absent one is empty.
    Has(&'static str, &'static str),
    /// Those that pass.
    Test(fn(&Value) -> bool),
}

impl When {
    fn holds(self, value: &Value) -> bool {
        match self {
            Self::Always => true,
            Self::Is(text) => value.as_str() == Some(text),
            Self::Has(key, text) => {
                let found = value.get(key).and_then(Value::as_str);
                found.unwrap_or_default() == text
            }
            Self::Test(test) => test(value),
        }
    }
}

/// What an object has in its place without it.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Nothing.
    Remove,
    /// What this makes of it.
    With(fn(&mut Value)),
}

/// A field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The plugin that reads it; `framework` for the framework itself.
    pub plugin: &'static str,
    /// For what.
    pub point: Point,
    /// Where it stands.
    pub on: On,
    /// What it is called in the table.
    pub name: &'static str,
    /// The way to it; `*` stands for each part. Without any it is the object itself, which can be changed.
    pub path: &'static [&'static str],
    /// Which values of it.
    pub when: When,
    /// What comes in its place.
    pub change: Change,
}

impl Field {
    /// The object without the field; `None` if it hasn't got it.
    pub fn strip(&self, object: &Value) -> Option<Value> {
        let mut stripped = object.clone();
        let changed = self.walk(&mut stripped, self.path);
        (changed && stripped != *object).then_some(stripped)
    }

    fn walk(&self, value: &mut Value, path: &[&str]) -> bool {
        match (path, value) {
            ([], value) => self.replace(std::iter::once(value)),
            (["*"], Value::Array(list)) => {
                let before = list.len();
                let mut changed = self.replace(list.iter_mut());
                if matches!(self.change, Change::Remove) {
                    list.retain(|part| !self.when.holds(part));
                    changed |= list.len() < before;
                }
                changed
            }
            (["*"], Value::Object(map)) => {
                let before = map.len();
                let mut changed = self.replace(map.values_mut());
                if matches!(self.change, Change::Remove) {
                    map.retain(|_, part| !self.when.holds(part));
                    changed |= map.len() < before;
                }
                changed
            }
            ([key], Value::Object(map)) => {
                let meant = map.get(*key).is_some_and(|part| self.when.holds(part));
                if meant && matches!(self.change, Change::Remove) {
                    map.remove(*key);
                    return true;
                }
                self.replace(map.get_mut(*key).into_iter())
            }
            (["*", rest @ ..], Value::Array(list)) => {
                let walked = list.iter_mut().map(|part| self.walk(part, rest));
                walked.fold(false, |all, changed| all | changed)
            }
            (["*", rest @ ..], Value::Object(map)) => {
                let walked = map.values_mut().map(|part| self.walk(part, rest));
                walked.fold(false, |all, changed| all | changed)
            }
            ([key, rest @ ..], Value::Object(map)) => {
                map.get_mut(*key).is_some_and(|part| self.walk(part, rest))
            }
            _ => false,
        }
    }

    fn replace<'a>(&self, parts: impl Iterator<Item = &'a mut Value>) -> bool {
        let Change::With(change) = self.change else {
            return false;
        };
        let mut changed = false;
        for part in parts.filter(|part| self.when.holds(part)) {
            change(part);
            changed = true;
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Change, Field, On, Point, When};

    fn field(path: &'static [&'static str], when: When, change: Change) -> Field {
        Field {
            plugin: "P",
            point: Point::Filter,
            on: On::Pod,
            name: "n",
            path,
            when,
            change,
        }
    }

    #[test]
    fn a_field_goes_wherever_its_path_leads() {
        let object = json!({
            "ports": [{"ip": "a", "n": 1}, {"n": 2}, {"ip": "b"}],
            "list": {"x/y": "1", "z": "2"},
        });
        let strip = |path, when| field(path, when, Change::Remove).strip(&object);
        let part = |stripped: Option<Value>, key: &str| stripped.unwrap()[key].take();
        let each = strip(&["ports", "*", "ip"], When::Always);
        assert_eq!(part(each, "ports"), json!([{"n": 1}, {"n": 2}, {}]));
        let one = strip(&["ports", "*", "ip"], When::Is("a"));
        assert_eq!(part(one, "ports"), json!([{"n": 1}, {"n": 2}, {"ip": "b"}]));
        let without = strip(&["ports", "*"], When::Has("ip", ""));
        assert_eq!(
            part(without, "ports"),
            json!([{"ip": "a", "n": 1}, {"ip": "b"}])
        );
        let key = strip(&["list", "x/y"], When::Always);
        assert_eq!(part(key, "list"), json!({"z": "2"}));
        let values = strip(&["list", "*"], When::Test(|value| value == "2"));
        assert_eq!(part(values, "list"), json!({"x/y": "1"}));
        assert_eq!(strip(&["ports", "*", "absent"], When::Always), None);
        assert_eq!(strip(&["ports", "*", "ip"], When::Is("c")), None);
    }

    #[test]
    fn the_object_itself_can_be_changed() {
        let object = json!({"labels": {"app": "b"}});
        let before = |object: &mut Value| object["labels"] = json!({"app": "a"});
        let changed = field(&[], When::Always, Change::With(before)).strip(&object);
        assert_eq!(changed.unwrap(), json!({"labels": {"app": "a"}}));
        assert_eq!(
            field(&[], When::Always, Change::Remove).strip(&object),
            None
        );
    }

    #[test]
    fn a_change_that_changes_nothing_is_none() {
        let object = json!({"weights": [{"weight": 5}, {"weight": 1}]});
        let one = |part: &mut Value| *part = json!(1);
        let path = &["weights", "*", "weight"];
        let changed = field(path, When::Always, Change::With(one)).strip(&object);
        let changed = changed.unwrap();
        assert_eq!(changed, json!({"weights": [{"weight": 1}, {"weight": 1}]}));
        assert_eq!(
            field(path, When::Always, Change::With(one)).strip(&changed),
            None
        );
    }
}
