//! The demo does what it says.

#[tokio::test(flavor = "multi_thread")]
async fn demo() {
    if let Err(error) = pilotage_e2e::demo::run(false).await {
        panic!("{}", pilotage_e2e::explain(&error));
    }
}
