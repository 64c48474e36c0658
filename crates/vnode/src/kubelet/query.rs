//! The question to a target's API server that a kubelet's question becomes: same meaning, other names.
//!
//! Pure. Only known parameters pass, each read and written anew; others are ignored, as a kubelet does.

use std::borrow::Cow;

use form_urlencoded::{Serializer, parse};
use jiff::Timestamp;

use super::passing::LastLine;
use super::refusal::Refusal;
use super::route::{Action, Route};

/// Bytes of a question, which HTTP lets have 64 KiB. Commands are in it.
const LONGEST: usize = 60 << 10;
/// Words of a command.
const MOST_WORDS: usize = 4096;
/// Ports.
const MOST_PORTS: usize = 256;

/// Path and query by which the target's API server is asked for the same, of its pod of this name.
pub fn of_target(route: &Route, delegate: &str, query: &str) -> Result<String, Refusal> {
    let too_long = || {
        let text = format!("the parameters, or the command, have more than {LONGEST} bytes");
        Refusal::bad(text)
    };
    if query.len() > LONGEST {
        return Err(too_long());
    }
    let asked: Vec<(Cow<'_, str>, Cow<'_, str>)> = parse(query.as_bytes()).collect();
    let mut made = Serializer::new(String::new());
    if let Some(container) = &route.container {
        made.append_pair("container", container);
    }
    let asked = Asked(&asked);
    match route.action {
        Action::Logs => logs(&asked, &mut made)?,
        Action::Exec => {
            streams(&asked, &mut made);
            command(&asked, &mut made)?;
        }
        Action::Attach => streams(&asked, &mut made),
        Action::PortForward => ports(&asked, &mut made)?,
    }
    let (namespace, subresource) = (&route.namespace, route.action.subresource());
    let mut path = format!("/api/v1/namespaces/{namespace}/pods/{delegate}/{subresource}");
    let query = made.finish();
    if !query.is_empty() {
        path.push('?');
        path.push_str(&query);
    }
    if path.len() > LONGEST {
        return Err(too_long());
    }
    Ok(path)
}

/// What a line of ours would have to look like in the logs that are asked for.
pub(crate) fn last_line(query: &str) -> LastLine {
    let asked: Vec<(Cow<'_, str>, Cow<'_, str>)> = parse(query.as_bytes()).collect();
    let asked = Asked(&asked);
    if asked.first("limitBytes").is_some() {
        LastLine::Absent
    } else if asked.is_set("timestamps") {
        LastLine::Timed
    } else {
        LastLine::Plain
    }
}

/// Names and values.
struct Asked<'a>(&'a [(Cow<'a, str>, Cow<'a, str>)]);

impl Asked<'_> {
    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.0.iter().filter(move |(key, _)| key == name);
        named.map(|(_, value)| &**value)
    }

    fn first(&self, name: &str) -> Option<&str> {
        self.all(name).next().filter(|value| !value.is_empty())
    }

    fn is_set(&self, name: &str) -> bool {
        self.first(name)
            .is_some_and(|value| matches!(value, "1" | "true"))
    }
}

fn logs(asked: &Asked<'_>, made: &mut Serializer<'_, String>) -> Result<(), Refusal> {
    for name in ["follow", "previous", "timestamps"] {
        if asked.is_set(name) {
            made.append_pair(name, "true");
        }
    }
    for (name, least) in [("sinceSeconds", 1), ("tailLines", 0), ("limitBytes", 1)] {
        if let Some(value) = asked.first(name) {
            let number = value.parse::<i64>().ok().filter(|number| *number >= least);
            let number = number.ok_or_else(|| wrong(name))?;
            made.append_pair(name, &number.to_string());
        }
    }
    if let Some(value) = asked.first("sinceTime") {
        let time: Timestamp = value.parse().map_err(|_| wrong("sinceTime"))?;
        made.append_pair("sinceTime", &time.to_string());
    }
    match asked.first("stream") {
        // What everybody gets; older API servers don't know the parameter.
        None | Some("All") => {}
        Some(stream @ ("Stdout" | "Stderr")) => {
            made.append_pair("stream", stream);
        }
        Some(_) => return Err(wrong("stream")),
    }
    Ok(())
}

fn streams(asked: &Asked<'_>, made: &mut Serializer<'_, String>) {
    for (name, theirs) in [
        ("input", "stdin"),
        ("output", "stdout"),
        ("error", "stderr"),
        ("tty", "tty"),
    ] {
        // Each is said, since some have another default there.
        let value = if asked.is_set(name) { "true" } else { "false" };
        made.append_pair(theirs, value);
    }
}

fn command(asked: &Asked<'_>, made: &mut Serializer<'_, String>) -> Result<(), Refusal> {
    let mut words = 0_usize;
    for word in asked.all("command") {
        words = words.saturating_add(1);
        if words > MOST_WORDS {
            let text = format!("the command has more than {MOST_WORDS} words");
            return Err(Refusal::bad(text));
        }
        made.append_pair("command", word);
    }
    if words == 0 {
        return Err(Refusal::bad("there is no command"));
    }
    Ok(())
}

fn ports(asked: &Asked<'_>, made: &mut Serializer<'_, String>) -> Result<(), Refusal> {
    let all = asked.all("port").flat_map(|value| value.split(','));
    let mut count = 0_usize;
    for port in all.filter(|port| !port.is_empty()) {
        count = count.saturating_add(1);
        let port = port.parse::<u16>().ok().filter(|port| *port > 0);
        let port = port.filter(|_| count <= MOST_PORTS);
        made.append_pair("ports", &port.ok_or_else(|| wrong("port"))?.to_string());
    }
    Ok(())
}

fn wrong(name: &str) -> Refusal {
    Refusal::bad(format!(
        "the parameter {name} has a value that it can't have"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(action: Action, query: &str) -> Result<String, Refusal> {
        let route = Route {
            action,
            namespace: "shop".into(),
            pod: "web".into(),
            uid: None,
            container: (action != Action::PortForward).then(|| "app".into()),
        };
        of_target(&route, "web-1", query)
    }

    const POD: &str = "/api/v1/namespaces/shop/pods/web-1";

    #[test]
    fn a_question_for_logs_keeps_its_meaning() {
        for (query, want) in [
            ("", "log?container=app"),
            (
                "follow=true&timestamps=true&previous=1&unknown=x",
                "log?container=app&follow=true&previous=true&timestamps=true",
            ),
            ("follow=false", "log?container=app"),
            (
                "tailLines=0&sinceSeconds=5&limitBytes=7",
                "log?container=app&sinceSeconds=5&tailLines=0&limitBytes=7",
            ),
            (
                "sinceTime=2026-11-21T12%3A00%3A00%2B01%3A00",
                "log?container=app&sinceTime=2026-11-21T11%3A00%3A00Z",
            ),
            ("stream=All", "log?container=app"),
            ("stream=Stderr", "log?container=app&stream=Stderr"),
            // A second container could be another one than was looked at.
            ("container=other", "log?container=app"),
        ] {
            assert_eq!(asked(Action::Logs, query), Ok(format!("{POD}/{want}")));
        }
        for query in [
            "tailLines=-1",
            "tailLines=99999999999999999999",
            "sinceSeconds=0",
            "limitBytes=x",
            "sinceTime=yesterday",
            "stream=Stdin",
        ] {
            let refusal = asked(Action::Logs, query).unwrap_err();
            assert_eq!(refusal.status, 400, "{query}");
        }
    }

    #[test]
    fn a_line_of_ours_fits_the_logs() {
        for (query, want) in [
            ("follow=true&timestamps=false&limitBytes=", LastLine::Plain),
            ("timestamps=1", LastLine::Timed),
            ("timestamps=true&limitBytes=9", LastLine::Absent),
        ] {
            assert_eq!(last_line(query), want, "{query}");
        }
    }

    #[test]
    fn a_command_keeps_its_words_and_streams_have_the_names_of_the_api() {
        let query = "command=sh&command=-c&command=echo+%22a%26b%22%0A&input=1&output=1&tty=1";
        let want = "exec?container=app&stdin=true&stdout=true&stderr=false&tty=true\
                    &command=sh&command=-c&command=echo+%22a%26b%22%0A";
        assert_eq!(asked(Action::Exec, query), Ok(format!("{POD}/{want}")));
        assert_eq!(asked(Action::Exec, "output=1").unwrap_err().status, 400);
        let many = "command=x&".repeat(MOST_WORDS + 1);
        assert_eq!(asked(Action::Exec, &many).unwrap_err().status, 400);
        let long = format!("command={}", "x".repeat(LONGEST));
        assert_eq!(asked(Action::Exec, &long).unwrap_err().status, 400);
        let want = "attach?container=app&stdin=false&stdout=true&stderr=true&tty=false";
        let attached = asked(Action::Attach, "output=1&error=1&command=x");
        assert_eq!(attached, Ok(format!("{POD}/{want}")));
    }

    #[test]
    fn ports_are_numbers_of_ports() {
        for (query, want) in [
            ("", "portforward"),
            ("port=80", "portforward?ports=80"),
            (
                "port=80,443&port=8080",
                "portforward?ports=80&ports=443&ports=8080",
            ),
        ] {
            assert_eq!(
                asked(Action::PortForward, query),
                Ok(format!("{POD}/{want}"))
            );
        }
        for query in ["port=0", "port=65536", "port=x", "port=-1"] {
            assert_eq!(asked(Action::PortForward, query).unwrap_err().status, 400);
        }
    }
}
