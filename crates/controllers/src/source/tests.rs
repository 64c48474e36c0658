use kube::Config;
use pilotage_runtime::client::from_config;

use super::*;

async fn panics() -> Result<Settled, ActError> {
    std::future::ready(()).await;
    panic!("on purpose")
}

#[tokio::test(start_paused = true)]
async fn a_source_whose_turn_panics_is_tried_less_and_less_often_and_told() {
    let nowhere = Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = from_config(nowhere, "test").unwrap();
    let stop = CancellationToken::new();
    let roles = Roles {
        source: "source".to_owned(),
        summary_viewer: "viewer".to_owned(),
    };
    let mut controller = Controller::new(client, roles, Leadership::always(), &stop);
    let key = |name: &str| SourceKey {
        namespace: Some("ns".to_owned()),
        name: name.to_owned(),
    };
    controller.soon(key("other"));
    let due_in = |seconds| Instant::now() + Duration::from_secs(seconds);
    for (failures, pause) in (1..).zip([10, 20, 40, 80, 160, 300, 300]) {
        controller.settle(key("bad"), caught_async(panics()).await);
        assert_eq!(controller.due[&key("bad")], (due_in(pause), failures));
    }
    assert_eq!(controller.due[&key("other")], (due_in(0), 0));
    controller.settle(key("bad"), Ok(Ok(Settled::Yes)));
    assert!(
        !controller.due.contains_key(&key("bad")),
        "it is well again"
    );

    let told = mistake("on purpose");
    assert_eq!((told.type_, told.status), (types::READY, Some(false)));
    assert_eq!(told.reason, "InternalError");
    assert!(told.message.contains("on purpose"), "{}", told.message);
    stop.cancel();
}
