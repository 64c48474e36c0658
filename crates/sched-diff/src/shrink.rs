//! Makes a case smaller as long as it still shows what it showed: fewer steps, then fewer objects, then fewer fields,
//! by halves first and then by ever smaller parts. Knows nothing of schedulers.

use serde_json::Value;

use crate::case::{Case, Step};

/// Fields without which an object is another one, or none.
const KEPT: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "namespace",
    "uid",
    "schedulerName",
];

/// The smallest case found within so many tries for which `still` holds, as it must for `case` itself.
pub fn shrink(case: &Case, tries: usize, still: &mut dyn FnMut(&Case) -> bool) -> Case {
    let mut shrinker = Shrinker {
        best: case.clone(),
        tries,
        still,
    };
    loop {
        let before = shrinker.best.clone();
        shrinker.lists();
        shrinker.fields();
        if shrinker.best == before || shrinker.tries == 0 {
            return shrinker.best;
        }
    }
}

struct Shrinker<'a> {
    best: Case,
    tries: usize,
    still: &'a mut dyn FnMut(&Case) -> bool,
}

impl Shrinker<'_> {
    /// Keeps the candidate if it still holds.
    fn offer(&mut self, candidate: Case) -> bool {
        if self.tries == 0 {
            return false;
        }
        self.tries -= 1;
        let holds = (self.still)(&candidate);
        if holds {
            self.best = candidate;
        }
        holds
    }

    /// Leaves out parts of a list of `length`, of half its length at first. `without` makes the case that lacks the
    /// places from..to. How many stay.
    fn halve(&mut self, mut length: usize, without: impl Fn(&Case, usize, usize) -> Case) -> usize {
        let mut part = length.div_ceil(2);
        while part > 0 && length > 0 {
            // From the end: what comes last depends on what came first.
            let mut end = length;
            while end > 0 {
                let from = end.saturating_sub(part);
                let candidate = without(&self.best, from, end);
                if self.offer(candidate) {
                    length -= end - from;
                }
                end = from;
            }
            part = if part == 1 { 0 } else { part.div_ceil(2) };
        }
        length
    }

    fn lists(&mut self) {
        self.halve(self.best.steps.len(), |case, from, to| {
            let mut case = case.clone();
            case.steps.drain(from..to);
            case
        });
        self.halve(self.best.objects.len(), |case, from, to| {
            let mut case = case.clone();
            case.objects.drain(from..to);
            case
        });
        self.halve(self.best.configuration.plugins.len(), |case, from, to| {
            let mut case = case.clone();
            case.configuration.plugins.drain(from..to);
            case
        });
    }

    fn fields(&mut self) {
        if !self.best.configuration.gates.is_empty() {
            let mut candidate = self.best.clone();
            candidate.configuration.gates.clear();
            self.offer(candidate);
        }
        let plugins: Vec<String> = self.best.configuration.arguments.keys().cloned().collect();
        for plugin in plugins {
            let mut candidate = self.best.clone();
            candidate.configuration.arguments.remove(&plugin);
            if !self.offer(candidate) {
                self.value(&Root::Arguments(plugin), &mut Vec::new());
            }
        }
        for step in 0..self.best.steps.len() {
            self.value(&Root::Step(step), &mut Vec::new());
        }
        for object in 0..self.best.objects.len() {
            self.value(&Root::Object(object), &mut Vec::new());
        }
    }

    /// Leaves out parts of the value at `path`, then of each of its parts that stayed.
    fn value(&mut self, root: &Root, path: &mut Vec<Part>) {
        let parts = self.parts(root, path);
        let length = match parts.first() {
            None => return,
            Some(Part::Index(_)) => {
                let (root, path) = (root.clone(), path.clone());
                let left = self.halve(parts.len(), move |case, from, to| {
                    edited(case, &root, &path, |value| {
                        if let Value::Array(list) = value {
                            list.drain(from..to);
                        }
                    })
                });
                Some(left)
            }
            Some(Part::Key(_)) => {
                let (root, path) = (root.clone(), path.clone());
                let all = self.parts(&root, &path).len();
                self.halve(all, move |case, from, to| {
                    edited(case, &root, &path, |value| {
                        if let Value::Object(map) = value {
                            let keys: Vec<String> = removable(map.keys());
                            for key in &keys[from.min(keys.len())..to.min(keys.len())] {
                                map.remove(key);
                            }
                        }
                    })
                });
                None
            }
        };
        let parts = match length {
            Some(length) => (0..length).map(Part::Index).collect(),
            None => self.all_parts(root, path),
        };
        for part in parts {
            path.push(part);
            self.value(root, path);
            path.pop();
        }
    }

    /// The parts of a value that may go.
    fn parts(&self, root: &Root, path: &[Part]) -> Vec<Part> {
        match self.at(root, path) {
            Some(Value::Array(list)) => (0..list.len()).map(Part::Index).collect(),
            Some(Value::Object(map)) => removable(map.keys()).into_iter().map(Part::Key).collect(),
            _ => Vec::new(),
        }
    }

    /// All parts of a map, also those that stay.
    fn all_parts(&self, root: &Root, path: &[Part]) -> Vec<Part> {
        match self.at(root, path) {
            Some(Value::Object(map)) => map.keys().cloned().map(Part::Key).collect(),
            _ => Vec::new(),
        }
    }

    fn at<'a>(&'a self, root: &Root, path: &[Part]) -> Option<&'a Value> {
        let mut value = match root {
            Root::Step(at) => self.best.steps.get(*at).map(Step::object)?,
            Root::Object(at) => self.best.objects.get(*at)?,
            Root::Arguments(plugin) => self.best.configuration.arguments.get(plugin)?,
        };
        for part in path {
            value = match part {
                Part::Index(at) => value.get(at)?,
                Part::Key(key) => value.get(key)?,
            };
        }
        Some(value)
    }
}

/// A value that parts may be left out of.
#[derive(Clone, Debug)]
enum Root {
    Step(usize),
    Object(usize),
    Arguments(String),
}

/// A way from a value to a part of it.
#[derive(Clone, Debug)]
enum Part {
    Index(usize),
    Key(String),
}

fn removable<'a>(keys: impl Iterator<Item = &'a String>) -> Vec<String> {
    let may_go = |key: &&String| !KEPT.contains(&key.as_str());
    keys.filter(may_go).cloned().collect()
}

/// The case with one of its values changed.
fn edited(case: &Case, root: &Root, path: &[Part], edit: impl Fn(&mut Value)) -> Case {
    let mut case = case.clone();
    let change = |mut value: Value| {
        if let Some(part) = find(&mut value, path) {
            edit(part);
        }
        value
    };
    match root {
        Root::Step(at) => {
            let object = change(case.steps[*at].object().clone());
            case.steps[*at] = case.steps[*at].about(object);
        }
        Root::Object(at) => case.objects[*at] = change(case.objects[*at].take()),
        Root::Arguments(plugin) => {
            if let Some(arguments) = case.configuration.arguments.get_mut(plugin) {
                *arguments = change(arguments.take());
            }
        }
    }
    case
}

fn find<'a>(value: &'a mut Value, path: &[Part]) -> Option<&'a mut Value> {
    let mut value = value;
    for part in path {
        value = match part {
            Part::Index(at) => value.get_mut(at)?,
            Part::Key(key) => value.get_mut(key)?,
        };
    }
    Some(value)
}

#[cfg(test)]
mod tests;
