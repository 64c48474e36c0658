//! Temporary.
use super::*;
use pilotage_e2e::fleet::{secret, target_object};

#[tokio::test(flavor = "multi_thread")]
async fn smoke() {
    let fleet = shared_fleet().await;
    let shop = Shop::unconnected(fleet, "smoke").await;
    fleet.elect(&shop.name).await.unwrap();
    for t in &fleet.targets {
        let kc = t.plane.admin_access().kubeconfig_yaml();
        for o in [secret(t.name(), &shop.name, &kc), target_object(t.name(), &shop.name)] {
            fleet.source.plane.apply_yaml(&o.to_string()).await.unwrap();
        }
    }
    println!("LOGS {:#?}", fleet.logs());
    shop.create(&elected("web", "100m")).await;
    let p = shop.running("web").await;
    println!("{:?}", shop.delegate(&p).await.0);
    shop.delete("web").await;
    let t = std::time::Instant::now();
    let api = shop.pods();
    futures::future::join_all((0..100).map(|i| { let api = api.clone(); async move {
        api.create(&PostParams::default(), &elected(&format!("web-{i:03}"), "250m")).await.unwrap(); } })).await;
    println!("created {:?}", t.elapsed());
    let r = pilotage_testkit::wait_count(&api, kube::runtime::watcher::Config::default(), 100, is_running, LIMIT).await;
    println!("running {:?} {}", t.elapsed(), r.is_ok());
    for cluster in shop.fleet.all() {
        let mut table: BTreeMap<(String, String, String), usize> = BTreeMap::new();
        for entry in cluster.plane.audit().unwrap().entries().await.unwrap() {
            if entry.namespace == shop.name {
                *table.entry((entry.user.clone(), entry.verb.clone(), entry.full_resource())).or_default() += 1;
            }
        }
        println!("requests in {}:", cluster.name());
        for ((u, verb, resource), count) in table { println!("  {u:60} {verb:8} {resource:28} {count}"); }
    }
    r.unwrap();
}
