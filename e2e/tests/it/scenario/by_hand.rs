//! What `docs/connect.md` says of connecting two clusters by objects of one's own, typed as it stands.

use std::process::Command;

use kube::Api;
use pilotage_api::conditions::types;
use pilotage_api::{Right, Target};
use pilotage_e2e::fleet::Spec;
use pilotage_testkit::wait_for;

use super::{LIMIT, Shop, elected, small_nodes, started};
use crate::workspace::root;

/// As a user's shell, whose kubeconfig has both clusters.
const SHELL: &str = r#"set -euo pipefail
kubectl() {
  local file=$SOURCE
  [[ " $* " != *" --context paris "* ]] || file=$TARGET
  KUBECONFIG=$file command kubectl "$@"
}
"#;

/// The blocks of a language in a section, in order.
fn blocks<const N: usize>(section: &str, language: &str) -> [String; N] {
    let fence = format!("\n```{language}\n");
    let blocks = section.split(&fence).skip(1);
    let blocks = blocks.map(|it| it.split("```").next().unwrap().to_owned());
    blocks.collect::<Vec<_>>().try_into().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_are_connected_by_the_commands_of_the_guide() {
    let spec = Spec::new()
        .one_process()
        .rights(&[Right::Logs, Right::Exec])
        .target("paris", small_nodes("paris"));
    let shop = Shop::unconnected(started(spec).await, "hand").await;
    let (source, paris) = (&shop.fleet.source.plane, &shop.target("paris").plane);
    let at = shop.name.as_str();

    let guide = std::fs::read_to_string(root().join("docs/connect.md")).unwrap();
    let (_, section) = guide.split_once("\n## With objects of your own\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let section = section
        .replace("shop", at)
        .replace("https://paris.example.com:6443", paris.url());
    let [source_object, target_object, token_object] = blocks(&section, "yaml");
    let [_, keep, write] = blocks(&section, "sh");
    let (read, write) = write.split_once('\n').unwrap();
    let write = write.replace("--token TOKEN", "--token \"$TOKEN\"");

    let directory = source.directory().join(pilotage_testkit::unique());
    std::fs::create_dir(&directory).unwrap();
    for (name, text) in [
        ("source.yaml", source_object.as_str()),
        ("target.yaml", target_object.as_str()),
        ("token.yaml", token_object.as_str()),
        ("ca.crt", paris.admin_access().ca_pem()),
    ] {
        std::fs::write(directory.join(name), text).unwrap();
    }
    let wait = format!("kubectl wait --context paris --namespace {at} --timeout 60s");
    let script = format!(
        "{SHELL}\
         kubectl apply --context paris --filename source.yaml\n\
         {wait} serviceaccount/london --for create\n\
         kubectl apply --context paris --filename token.yaml\n\
         {wait} secret/london-token --for 'jsonpath={{.data.token}}'\n\
         TOKEN=$({read})\n\
         {write}\n\
         {keep}\n\
         kubectl apply --filename target.yaml\n"
    );
    let kubectl = source.tools().path("kubectl").unwrap();
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let own = kubectl.parent().unwrap().to_owned();
    let path = std::iter::once(own).chain(std::env::split_paths(&inherited));
    let mut shell = Command::new("bash");
    shell
        .arg("-c")
        .arg(&script)
        .current_dir(&directory)
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("HOME", &directory)
        .env("SOURCE", source.admin_kubeconfig())
        .env("TARGET", paris.admin_kubeconfig());
    let typed = tokio::task::spawn_blocking(move || shell.output().unwrap());
    let typed = typed.await.unwrap();
    let said = String::from_utf8_lossy(&typed.stderr);
    assert!(typed.status.success(), "{said}\n{script}");

    let targets: Api<Target> = Api::namespaced(source.admin(), at);
    let connected = |target: &Target| {
        let status = target.status.as_ref();
        let mut all = status.into_iter().flat_map(|it| &it.conditions);
        all.any(|it| it.type_ == types::AUTHORIZED && it.status == "True")
    };
    shop.seen(wait_for(&targets, "paris", connected, LIMIT).await);
    shop.fleet.elect(at).await.unwrap();
    shop.create(&elected("web", "100m")).await;
    shop.running("web").await;
}
