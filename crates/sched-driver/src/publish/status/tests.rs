//! What becomes of wishes that the API server doesn't fulfil at once.

use serde_json::{Value, json};

use super::*;
use crate::test_server::{error, leads_for_a_while, server};

fn object(nominated: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": "ns", "name": "heir", "uid": "u", "resourceVersion": "7" },
        "status": { "nominatedNodeName": nominated },
    })
}

fn heir(nominated: Option<&str>) -> Arc<Pod> {
    Arc::new(serde_json::from_value(object(nominated)).unwrap())
}

fn nomination(nomination: Nomination) -> Desired {
    Desired {
        unscheduled: None,
        nomination,
    }
}

fn condition(message: &str) -> Desired {
    Desired {
        unscheduled: Some(("Unschedulable", message.to_owned())),
        nomination: Nomination::Keep,
    }
}

/// What is written if these wishes come one after the other: of each write what it says of the nomination, and whether
/// it says anything of the condition.
async fn written(
    answers: &[(u16, Value)],
    wishes: impl IntoIterator<Item = Desired>,
) -> Vec<(Option<Value>, bool)> {
    let (client, asked) = server(answers);
    let writer = StatusWriter::new(client, Leadership::always());
    for wish in wishes {
        writer.write(heir(Some("n")), wish);
    }
    writer.tasks.close();
    writer.tasks.wait().await;
    assert!(writer.wanted().is_empty(), "it is forgotten");
    let asked = std::mem::take(&mut *asked.lock().unwrap());
    let patches = asked.iter().filter(|(what, _)| what.starts_with("PATCH"));
    let said = patches.map(|(_, body)| {
        let status = &body["status"];
        (
            status.get("nominatedNodeName").cloned(),
            status.get("conditions").is_some(),
        )
    });
    said.collect()
}

fn unavailable() -> (u16, Value) {
    error(503, "ServiceUnavailable")
}

const TAKES_AWAY: (Option<Value>, bool) = (Some(Value::Null), false);

#[tokio::test(start_paused = true)]
async fn a_nomination_that_has_to_go_is_taken_away_however_often_that_fails() {
    let mut answers = vec![unavailable(), error(403, "Forbidden"), unavailable()];
    answers.extend(vec![unavailable(); 30]);
    let failures = answers.len();
    answers.push((200, object(None)));
    let clear = nomination(Nomination::Clear);
    let all = vec![TAKES_AWAY; failures + 1];
    assert_eq!(written(&answers, [clear.clone()]).await, all);
    // A pod that changes all the time, or can't be read.
    let conflict = || error(409, "Conflict");
    let mut answers = [(); 4]
        .map(|()| [conflict(), (200, object(Some("n")))])
        .concat();
    answers.extend([conflict(), unavailable(), (200, object(None))]);
    assert_eq!(
        written(&answers, [clear.clone()]).await,
        vec![TAKES_AWAY; 6]
    );
    // It has gone, or needs none any more.
    for last in [error(404, "NotFound"), (200, object(None))] {
        let answers = [unavailable(), conflict(), last];
        assert_eq!(
            written(&answers, [clear.clone()]).await,
            vec![TAKES_AWAY; 2]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_later_takes_no_nomination_back_and_a_new_one_stays() {
    let done = || (200, object(None));
    let clear = || nomination(Nomination::Clear);
    // The first one is under way when the others come.
    let answers = [unavailable(), done()];
    let wishes = [clear(), condition("full")];
    let both = (Some(Value::Null), true);
    assert_eq!(written(&answers, wishes).await, [TAKES_AWAY, both.clone()]);
    let answers = [done(), done()];
    let wishes = [condition("full"), clear(), condition("fuller")];
    assert_eq!(written(&answers, wishes).await, [(None, true), both]);
    let answers = [unavailable(), done()];
    let wishes = [clear(), nomination(Nomination::Set("m".into()))];
    let set = (Some(json!("m")), false);
    assert_eq!(written(&answers, wishes).await, [TAKES_AWAY, set]);
    // It is expected again where its status says so already: nothing is left to write.
    let wishes = [clear(), nomination(Nomination::Set("n".into()))];
    assert_eq!(written(&[unavailable()], wishes).await, [TAKES_AWAY]);
}

#[tokio::test(start_paused = true)]
async fn a_condition_is_written_again_only_with_the_next_attempt() {
    let said = written(&[unavailable()], [condition("full")]).await;
    assert_eq!(said, [(None, true)]);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_leaves_it() {
    let (client, asked) = server(&[unavailable(), unavailable()]);
    let writer = StatusWriter::new(client, Leadership::always());
    writer.write(heir(Some("n")), nomination(Nomination::Clear));
    writer.drain().await;
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_leads_no_more_writes_nothing() {
    let answers = [(); 40].map(|()| unavailable());
    let (client, asked) = server(&answers);
    let writer = StatusWriter::new(client, leads_for_a_while().await);
    writer.write(heir(Some("n")), nomination(Nomination::Clear));
    writer.tasks.close();
    writer.tasks.wait().await;
    let writes = asked.lock().unwrap().len();
    assert!((2..answers.len()).contains(&writes), "{writes}");
    // Nor does it begin.
    writer.write(heir(Some("n")), nomination(Nomination::Clear));
    writer.tasks.wait().await;
    assert_eq!(asked.lock().unwrap().len(), writes);
}
