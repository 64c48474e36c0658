//! The token that `connect` puts into a source, on real control planes: the source renews it as long as the target lets
//! it, and nothing is interrupted; who takes that right away is told, and so is whoever looks.

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{
    TokenRequest, TokenRequestSpec, TokenReview, TokenReviewSpec,
};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use pilotage_api::token::{Token, TokenLife};
use pilotage_api::{Source, Target, keys};
use pilotage_e2e::fleet::{Side, Spec, lone};
use pilotage_testkit::{ControlPlane, wait_for};
use serde_json::{Value, json};

use super::kubelet::until;
use super::user::User;
use super::{LIMIT, Shop, elected, small_nodes, started};

/// The Secret with the kubeconfig.
const SECRET: &str = "paris-kubeconfig";
/// The shortest life that API servers give to a token.
const SHORTEST: i64 = 600;

/// The kubeconfig in a Secret.
fn kubeconfig(secret: &Secret) -> String {
    let bytes = &secret.data.as_ref().unwrap()["config"].0;
    String::from_utf8(bytes.clone()).unwrap()
}

/// The token in it.
fn token(secret: &Secret) -> String {
    let kubeconfig: Value = serde_json::from_str(&kubeconfig(secret)).unwrap();
    let token = kubeconfig["users"][0]["user"]["token"].as_str();
    token.unwrap().to_owned()
}

/// Whether it has the life that was asked for, a month.
fn is_good(token: &str) -> bool {
    Token::parse(token).unwrap().life() == Some(TokenLife::default().span())
}

fn mark(secret: &Secret) -> Option<&str> {
    let annotations = secret.metadata.annotations.as_ref();
    annotations?.get(keys::TOKEN_LIFE).map(String::as_str)
}

/// Status, reason and message of a condition, and since when it has that status.
fn condition<'a>(
    target: &'a Target,
    type_: &str,
) -> Option<(&'a str, &'a str, &'a str, Timestamp)> {
    let all = &target.status.as_ref()?.conditions;
    let it = all.iter().find(|it| it.type_ == type_)?;
    Some((
        &it.status,
        &it.reason,
        &it.message,
        it.last_transition_time.0,
    ))
}

/// Whether the target is connected by this version of the Secret, and says of its token that it is renewed in time.
fn is_renewed(target: &Target, secret: &Secret) -> bool {
    let tried = target
        .status
        .as_ref()
        .and_then(|it| it.kubeconfig_version.as_ref());
    let until = Token::parse(&token(secret)).unwrap().until.unwrap();
    let until = format!("is good until {until}");
    let in_time = condition(target, "TokenRenewed").filter(|it| it.2.contains(&until));
    tried == secret.metadata.resource_version.as_ref()
        && condition(target, "Connected").is_some_and(|it| it.0 == "True")
        && in_time.is_some_and(|it| (it.0, it.1) == ("True", "InTime"))
}

/// What one connection has, in both clusters.
struct Stage {
    shop: Shop,
    user: User,
    secrets: Api<Secret>,
    targets: Api<Target>,
}

impl Stage {
    async fn new() -> Self {
        let spec = Spec::new().one_process();
        let spec = spec.target("paris", small_nodes("paris"));
        let shop = Shop::unconnected(started(spec).await, "tokens").await;
        shop.fleet.elect(&shop.name).await.unwrap();
        let user = User::new(&shop.fleet.source.plane, &shop.target("paris").plane);
        Self {
            user,
            secrets: shop.of("source"),
            targets: shop.of("source"),
            shop,
        }
    }

    /// Connects, and returns what the command said on its way.
    async fn connect(&self, more: &[&str]) -> String {
        let (at, server) = (&*self.shop.name, self.shop.target("paris").plane.url());
        let words = [
            "connect",
            "--source",
            "source",
            "--target",
            "paris",
            "-n",
            at,
            "--target-server",
            server,
        ];
        let (code, out, err) = self.user.run(&[&words[..], more].concat()).await;
        assert!(code == 0 && out.starts_with("connected: "), "{out}{err}");
        err
    }

    async fn secret(&self) -> Secret {
        self.secrets.get(SECRET).await.unwrap()
    }

    async fn target(&self) -> Target {
        self.targets.get("paris").await.unwrap()
    }

    /// Puts a token into the kubeconfig that ends in ten minutes.
    async fn put_short(&self) -> Secret {
        let accounts: Api<ServiceAccount> = self.shop.of("paris");
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(SHORTEST),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let params = PostParams::default();
        let given = accounts.create_token_request("source", &params, &request);
        let short = given.await.unwrap().status.unwrap().token.unwrap();
        let secret = self.secret().await;
        let written = kubeconfig(&secret).replace(&token(&secret), &short);
        let patch = json!({ "data": { "config": ByteString(written.into_bytes()) } });
        let params = PatchParams::default();
        let patch = Patch::Merge(patch);
        let patched = self.secrets.patch(SECRET, &params, &patch);
        patched.await.unwrap()
    }

    /// Waits until there is another, good token, by which the target is connected.
    async fn renewed(&self, old: &Secret) -> Secret {
        let old = token(old);
        let is_new = |secret: &Secret| {
            let token = token(secret);
            token != old && is_good(&token)
        };
        let secret = wait_for(&self.secrets, SECRET, is_new, LIMIT).await;
        let secret = self.shop.seen(secret);
        let is_renewed = |target: &Target| is_renewed(target, &secret);
        self.shop
            .seen(wait_for(&self.targets, "paris", is_renewed, LIMIT).await);
        secret
    }

    /// Waits until the target's authorizer lets nobody make tokens of the account.
    async fn right_is_gone(&self) {
        let at = &self.shop.name;
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{at}:source")),
                resource_attributes: Some(ResourceAttributes {
                    namespace: Some(at.clone()),
                    resource: Some("serviceaccounts".to_owned()),
                    subresource: Some("token".to_owned()),
                    name: Some("source".to_owned()),
                    verb: Some("create".to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.shop.target("paris").plane.admin());
        until("the end of a right", async || {
            let answer = reviews.create(&PostParams::default(), &review).await;
            match answer.unwrap().status.unwrap() {
                status if status.allowed => Err("it is allowed"),
                _ => Ok(()),
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_renews_its_token_as_long_as_the_target_lets_it() {
    let stage = Stage::new().await;
    let shop = &stage.shop;
    stage.connect(&[]).await;
    let first = stage.secret().await;
    assert_eq!(mark(&first), Some("720h"));
    assert!(is_good(&token(&first)), "{}", token(&first));
    let made: Api<Secret> = shop.of("paris");
    assert!(made.get_opt("source-token").await.unwrap().is_none());
    shop.create(&elected("web", "100m")).await;
    let web = shop.running("web").await;
    let (_, delegate) = shop.delegate(&web).await;
    let connected = condition(&stage.target().await, "Connected").map(|it| it.3);

    // Its end is nearer than half of what is asked for.
    let short = stage.put_short().await;
    let second = stage.renewed(&short).await;
    let same = kubeconfig(&second).replace(&token(&second), &token(&first));
    assert_eq!(same, kubeconfig(&first), "only the token is another one");
    let target = stage.target().await;
    // Nothing was interrupted.
    assert_eq!(condition(&target, "Connected").map(|it| it.3), connected);
    let (_, still) = shop.delegate(&shop.running("web").await).await;
    assert_eq!(still.metadata.uid, delegate.metadata.uid);
    shop.create(&elected("more", "100m")).await;
    shop.running("more").await;

    // The target takes the right away.
    let bindings: Api<RoleBinding> = shop.of("paris");
    let params = DeleteParams::default();
    bindings.delete("source-token", &params).await.unwrap();
    stage.right_is_gone().await;
    let short = stage.put_short().await;
    let refused = |target: &Target| {
        condition(target, "TokenRenewed")
            .is_some_and(|it| (it.0, it.1) == ("False", "TokenRefused"))
    };
    let target = shop.seen(wait_for(&stage.targets, "paris", refused, LIMIT).await);
    let until_then = Token::parse(&token(&short)).unwrap().until.unwrap();
    let (_, _, said, _) = condition(&target, "TokenRenewed").unwrap();
    for word in [
        &*format!(
            "the token in secret {}/{SECRET} is good until {until_then}",
            shop.name
        ),
        "cannot create resource \"serviceaccounts/token\"",
        "`kubectl pilotage connect`",
        "`--renew-token`",
    ] {
        assert!(said.contains(word), "{word} in: {said}");
    }
    let kept = stage.secret().await;
    assert_eq!(token(&kept), token(&short));
    assert_eq!(condition(&target, "Connected").map(|it| it.0), Some("True"));

    // The same command gives it back, and the token is renewed.
    stage.connect(&[]).await;
    stage.renewed(&short).await;
    let (_, still) = shop.delegate(&shop.running("web").await).await;
    assert_eq!(still.metadata.uid, delegate.metadata.uid);

    // The account is deleted, and all its tokens have ended: nobody can renew one.
    let accounts: Api<ServiceAccount> = shop.of("paris");
    accounts.delete("source", &params).await.unwrap();
    let lost = |target: &Target| {
        condition(target, "Connected").is_some_and(|it| (it.0, it.1) == ("False", "Unauthorized"))
    };
    shop.seen(wait_for(&stage.targets, "paris", lost, LIMIT).await);
    let (code, out, err) = stage.user.run(&["status", "-n", &shop.name]).await;
    assert_eq!(code, 0, "{err}");
    let row: Vec<&str> = out.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..3], [&*shop.name, "paris", "False"], "{out}");
    let why = "Unauthorized: the API server of the target refuses our credentials: Unauthorized; its Secret needs \
               another kubeconfig, which \"kubectl pilotage connect --renew-token\" makes if it made this one";
    assert!(row.join(" ").ends_with(why), "{out}");
    shop.create(&elected("late", "100m")).await;
    for (pod, first, answer) in [
        ("web", "(Running): it went to target paris ", "runs it"),
        ("late", "(Pending): it waits: ", "can't be reached"),
    ] {
        let pod = format!("{}/{pod}", shop.name);
        let (first, told) = (
            format!("{pod} {first}"),
            format!("\nTARGET   ANSWER\nparis    {answer}"),
        );
        // The proxy scheduler may hear of the loss a moment later.
        until("what explain says", async || {
            let (code, out, err) = stage.user.run(&["explain", "pod", &pod]).await;
            if code == 0 && out.starts_with(&first) && out.contains(&told) {
                Ok(())
            } else {
                Err(format!("{out}{err}"))
            }
        })
        .await;
    }
    stage.connect(&["--renew-token"]).await;
    shop.running("late").await;
    let (_, still) = shop.delegate(&shop.running("web").await).await;
    assert_eq!(still.metadata.uid, delegate.metadata.uid);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kind_of_a_token_changes_only_when_it_is_renewed() {
    let stage = Stage::new().await;
    let shop = &stage.shop;
    let (secrets, roles): (Api<Secret>, Api<Role>) = (shop.of("paris"), shop.of("paris"));
    let there = async || {
        let endless = secrets.get_opt("source-token").await.unwrap().is_some();
        let renewed = roles.get_opt("source-token").await.unwrap().is_some();
        (endless, renewed)
    };
    // As every connection of an earlier version.
    stage.connect(&["--token-life", "never"]).await;
    let first = stage.secret().await;
    assert_eq!((mark(&first), there().await), (None, (true, false)));
    shop.create(&elected("web", "100m")).await;
    let web = shop.running("web").await;
    let (_, delegate) = shop.delegate(&web).await;
    for more in [&[][..], &["--token-life", "24h"]] {
        let said = stage.connect(more).await;
        assert!(
            said.contains("the token that is there has no end"),
            "{said}"
        );
        assert_eq!(kubeconfig(&stage.secret().await), kubeconfig(&first));
    }

    stage.connect(&["--renew-token"]).await;
    let second = stage.secret().await;
    assert_eq!(
        (mark(&second), there().await),
        (Some("720h"), (false, true))
    );
    assert!(is_good(&token(&second)));
    let said = stage.connect(&["--token-life", "never"]).await;
    assert!(said.contains("the token that is there ends"), "{said}");
    assert_eq!(token(&stage.secret().await), token(&second));
    // Another life is another token, made by the source.
    stage.connect(&["--token-life", "24h"]).await;
    let is_day = |secret: &Secret| {
        let life = Token::parse(&token(secret)).unwrap().life();
        life == "24h".parse::<TokenLife>().ok().map(TokenLife::span)
    };
    shop.seen(wait_for(&stage.secrets, SECRET, is_day, LIMIT).await);

    // What the account had is void: it is another one.
    let accounts: Api<ServiceAccount> = shop.of("paris");
    let uid = async || accounts.get("source").await.unwrap().metadata.uid;
    let before = uid().await;
    stage.connect(&["--renew-token"]).await;
    assert_ne!(uid().await, before);
    assert_eq!(mark(&stage.secret().await), Some("24h"));
    // Also if nobody says any more what kind of token it is.
    let before = uid().await;
    let unmarked = json!({ "metadata": { "annotations": { keys::TOKEN_LIFE: null } } });
    let (params, unmarked) = (PatchParams::default(), Patch::Merge(unmarked));
    stage
        .secrets
        .patch(SECRET, &params, &unmarked)
        .await
        .unwrap();
    stage.connect(&["--renew-token"]).await;
    assert_ne!(uid().await, before);
    assert_eq!(mark(&stage.secret().await), Some("720h"));
    let endless = ["--token-life", "never", "--renew-token"];
    stage.connect(&endless).await;
    let last = stage.secret().await;
    assert_eq!((mark(&last), there().await), (None, (true, false)));
    let (_, still) = shop.delegate(&shop.running("web").await).await;
    assert_eq!(still.metadata.uid, delegate.metadata.uid);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_renewed_while_nobody_runs_in_the_target() {
    let (source, target) = tokio::join!(
        lone(ControlPlane::builder("source"), Side::Source),
        lone(ControlPlane::builder("paris"), Side::Target)
    );
    let (source, target) = (source.unwrap(), target.unwrap());
    let user = User::new(&source.plane, &target.plane);
    let renew = [
        "connect",
        "--source",
        "source",
        "--target",
        "paris",
        "-n",
        "default",
        "--target-server",
        "https://127.0.0.1:1",
        "--renew-token",
        "--timeout",
        "3s",
    ];
    let said = ["Source source of the target isn't ready after 3 s"];
    user.fails(&renew, 3, &said).await;
    // What controllers leave that have ended.
    let account = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: source, namespace: default, labels: \
        {app.kubernetes.io/managed-by: pilotage}}}";
    target.plane.apply_yaml(account).await.unwrap();
    let sources: Api<Source> = Api::namespaced(target.plane.admin(), "default");
    let ready = json!({ "status": { "conditions": [{
        "type": "Ready", "status": "True", "reason": "Bound", "message": "bound",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] } });
    let (params, ready) = (PatchParams::default(), Patch::Merge(ready));
    let patched = sources.patch_status("source", &params, &ready);
    patched.await.unwrap();

    let accounts: Api<ServiceAccount> = Api::namespaced(target.plane.admin(), "default");
    let secrets: Api<Secret> = Api::namespaced(source.plane.admin(), "default");
    let reviews: Api<TokenReview> = Api::all(target.plane.admin());
    let mut before = accounts.get("source").await.unwrap().metadata.uid;
    // The second time as if the first had been interrupted between two requests.
    for is_gone in [false, true] {
        if is_gone {
            let params = DeleteParams::default();
            accounts.delete("source", &params).await.unwrap();
        }
        let said = ["Target paris of the source isn't connected after 3 s"];
        user.fails(&renew, 3, &said).await;
        let meta = accounts.get("source").await.unwrap().metadata;
        assert_ne!(meta.uid, before, "is gone: {is_gone}");
        let labels = meta.labels.unwrap();
        assert_eq!(labels[keys::MANAGED_BY.0], keys::MANAGED_BY.1);
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token(&secrets.get(SECRET).await.unwrap()),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let answer = reviews.create(&PostParams::default(), &review).await;
        let status = answer.unwrap().status.unwrap();
        assert_eq!(status.authenticated, Some(true), "{:?}", status.error);
        assert_eq!(status.user.unwrap().uid, meta.uid);
        before = meta.uid;
    }
}
