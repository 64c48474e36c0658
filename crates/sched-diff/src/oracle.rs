//! The real scheduler as a process: one JSON document a line in, one answer a line out. It ends when it is dropped.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::configuration::Configuration;
use crate::side::{Side, SideError};
use crate::verdict::Verdict;

/// The longest that an answer may take; a world of thirty nodes takes some milliseconds.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running oracle.
#[derive(Debug)]
pub struct Oracle {
    process: Child,
    requests: ChildStdin,
    answers: Receiver<String>,
}

impl Oracle {
    /// Starts `program`.
    pub fn start(program: &Path) -> Result<Self, SideError> {
        let lost = |text: &str| SideError::Lost(format!("{}: {text}", program.display()));
        let mut process = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| lost(&error.to_string()))?;
        let (Some(requests), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(lost("it has no pipes"));
        };
        // A thread reads, so that a silent process can be told from a slow one.
        let (sender, answers) = sync_channel(1);
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            process,
            requests,
            answers,
        })
    }

    /// Sends a request of one key; what stands in the answer under `wanted`. For what [`Side`] doesn't need.
    pub fn ask(
        &mut self,
        request: &'static str,
        body: &Value,
        wanted: &str,
    ) -> Result<Value, SideError> {
        let lost = |text: String| SideError::Lost(format!("{request}: {text}"));
        let mut line = json!({ request: body }).to_string();
        line.push('\n');
        self.requests
            .write_all(line.as_bytes())
            .map_err(|error| lost(error.to_string()))?;
        let answer = self
            .answers
            .recv_timeout(PATIENCE)
            .map_err(|error| lost(format!("no answer: {error}")))?;
        let mut answer: Value =
            serde_json::from_str(&answer).map_err(|error| lost(format!("{error} in {answer}")))?;
        if let Some(error) = answer["error"].as_str() {
            return Err(SideError::refused(request, &error));
        }
        match answer.get_mut(wanted) {
            Some(found) => Ok(found.take()),
            None => Err(lost(format!("no {wanted:?} in {answer}"))),
        }
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Side for Oracle {
    fn open(&mut self, configuration: &Configuration, objects: &[Value]) -> Result<(), SideError> {
        let body = json!({"configuration": configuration.to_api(), "objects": objects,
            "gates": configuration.gates});
        let opened = self.ask("open", &body, "opened")?;
        let names = |point: &str| {
            let plugins = opened["plugins"][point].as_array();
            let name = |plugin: &Value| {
                let name = plugin.get("name").unwrap_or(plugin).as_str();
                name.unwrap_or_default().to_owned()
            };
            plugins.map_or_else(Vec::new, |plugins| plugins.iter().map(name).collect())
        };
        for (point, wanted) in [
            ("filter", configuration.filters()),
            ("score", configuration.scores()),
        ] {
            let found: Vec<String> = names(point);
            if found != wanted {
                let text = format!("at {point} it runs {found:?} in place of {wanted:?}");
                return Err(SideError::refused("open", &text));
            }
        }
        Ok(())
    }

    fn apply(&mut self, object: &Value) -> Result<(), SideError> {
        self.ask("apply", object, "applied").map(drop)
    }

    fn delete(&mut self, object: &Value) -> Result<(), SideError> {
        self.ask("delete", object, "deleted").map(drop)
    }

    fn evaluate(&mut self, pod: &Value) -> Result<Verdict, SideError> {
        let verdict = match self.ask("evaluate", pod, "verdict") {
            Ok(verdict) => verdict,
            Err(SideError::Refused { text, .. }) => return Ok(Verdict::failed(text)),
            Err(lost) => return Err(lost),
        };
        serde_json::from_value(verdict)
            .map_err(|error| SideError::Lost(format!("verdict: {error}")))
    }

    fn assume(&mut self, pod: &Value, node: &str) -> Result<(), SideError> {
        let body = json!({"pod": pod, "node": node});
        self.ask("assume", &body, "assumed").map(drop)
    }

    fn nominate(&mut self, pod: &Value, node: &str) -> Result<(), SideError> {
        let body = json!({"pod": pod, "node": node});
        self.ask("nominate", &body, "nominated").map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Oracle;
    use crate::side::{Side as _, SideError};
    use serde_json::json;

    #[test]
    fn a_program_that_does_not_speak_is_lost() {
        let mut oracle = Oracle::start(Path::new("/bin/true")).unwrap();
        let error = oracle.apply(&json!({})).unwrap_err();
        assert!(matches!(error, SideError::Lost(_)), "{error}");
        assert!(Oracle::start(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn an_error_is_a_refusal_and_an_echo_is_no_answer() {
        // `cat` gives requests back: one named error is an error, others lack the answer's key.
        let mut oracle = Oracle::start(Path::new("/bin/cat")).unwrap();
        let error = oracle.ask("error", &json!("no"), "applied").unwrap_err();
        assert_eq!(error, SideError::refused("error", &"no"));
        assert!(matches!(oracle.apply(&json!({})), Err(SideError::Lost(_))));
    }
}
