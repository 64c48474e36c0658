//! The demo does what it says.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn demo() {
    if let Err(error) = pilotage_e2e::demo::run(false).await {
        panic!("{}", error.explain());
    }
}
