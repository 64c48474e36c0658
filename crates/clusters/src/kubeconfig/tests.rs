use super::*;

fn file(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: main\n\
         contexts:\n- name: main\n  context: {{cluster: c, user: u, namespace: shop}}\n\
         - name: other\n  context: {{cluster: c2, user: u}}\n\
         - name: homeless\n  context: {{cluster: nowhere, user: u}}\n\
         - name: faceless\n  context: {{cluster: c, user: nobody}}\n\
         clusters:\n- name: c\n  cluster: {{{cluster}}}\n\
         - name: c2\n  cluster: {{server: 'https://two:6443'}}\n\
         users:\n- name: u\n  user: {{{user}}}\n"
    )
}

const SERVER: &str = "server: 'https://one:6443'";

fn fault(cluster: &str, user: &str, context: Option<&str>) -> String {
    parse(file(cluster, user).as_bytes(), context)
        .unwrap_err()
        .to_string()
}

#[test]
fn the_current_context_unless_another_is_named() {
    let text = file(SERVER, "token: t");
    let main = parse(text.as_bytes(), None).unwrap();
    assert_eq!(main.cluster_url.to_string(), "https://one:6443/");
    assert_eq!(main.default_namespace, "shop");
    assert!(main.auth_info.token.is_some() && main.root_cert.is_none() && !main.default_retry);
    let other = parse(text.as_bytes(), Some("other")).unwrap();
    assert_eq!(other.cluster_url.host(), Some("two"));
}

#[test]
fn the_token_is_the_one_that_logs_in() {
    let of = |user: &str| token(file(SERVER, user).as_bytes(), None);
    assert_eq!(of("token: t").unwrap().as_deref(), Some("t"));
    // What is read beside a file counts, as in client-go.
    let both = of("token: t, tokenFile: /etc/shadow");
    assert_eq!(both.unwrap().as_deref(), Some("t"));
    assert_eq!(of("username: a, password: b").unwrap(), None);
    assert!(of("exec: {command: a}").is_err() && token(b"\xff", None).is_err());
}

#[test]
fn json_is_a_kubeconfig_too() {
    let text = r#"{"current-context":"a","contexts":[{"name":"a","context":{"cluster":"c","user":""}}],
        "clusters":[{"name":"c","cluster":{"server":"https://one"}}],"users":null}"#;
    assert!(parse(text.as_bytes(), None).is_ok());
}

#[test]
fn what_would_run_or_read_here_is_refused() {
    for (cluster, user, field) in [
        (
            SERVER,
            "exec: {command: /bin/sh, apiVersion: client.authentication.k8s.io/v1}",
            "exec",
        ),
        (SERVER, "auth-provider: {name: gcp}", "auth-provider"),
        (SERVER, "tokenFile: /etc/shadow", "tokenFile"),
        (
            SERVER,
            "client-certificate: /a, client-key-data: aa==",
            "client-certificate",
        ),
        (
            SERVER,
            "client-certificate-data: aaaa, client-key: /k",
            "client-key",
        ),
        (
            "server: 'https://one', certificate-authority: /ca",
            "token: t",
            "certificate-authority",
        ),
    ] {
        let text = fault(cluster, user, None);
        assert!(
            text.contains(&format!("{field:?}")) && text.contains("refused"),
            "{text}"
        );
    }
}

#[test]
fn a_path_beside_its_data_is_ignored() {
    let config = parse(
        file(SERVER, "token: t, tokenFile: /etc/shadow").as_bytes(),
        None,
    )
    .unwrap();
    assert_eq!(config.auth_info.token_file, None);
}

#[test]
fn every_fault_says_what_and_where() {
    let none = "";
    for (cluster, user, context, want) in [
        (
            SERVER,
            "token: t",
            Some("prod"),
            r#"no context "prod"; there is main, other"#,
        ),
        (
            SERVER,
            "token: t",
            Some("homeless"),
            r#"cluster "nowhere", which is not defined"#,
        ),
        (
            SERVER,
            "token: t",
            Some("faceless"),
            r#"user "nobody", which is not defined"#,
        ),
        (
            none,
            "token: t",
            None,
            r#"cluster "c" has no usable server URL: none is given"#,
        ),
        ("server: 'one:6443'", none, None, "is no http or https URL"),
        ("server: 'ftp://one'", none, None, "is no http or https URL"),
        ("server: 'https://me:pw@one'", none, None, "it holds a user"),
        (
            "server: 'https://one', proxy-url: 'http://p'",
            none,
            None,
            "proxy-url",
        ),
        (
            "server: 'https://one', certificate-authority-data: '%%'",
            none,
            None,
            r#"cluster "c": "certificate-authority-data" is not base64"#,
        ),
        (
            "server: 'https://one', certificate-authority-data: aGVsbG8=",
            none,
            None,
            "without any certificate",
        ),
        (
            SERVER,
            "client-key-data: aaaa",
            None,
            r#""client-certificate-data" is missing"#,
        ),
        (
            SERVER,
            "client-certificate-data: aaaa",
            None,
            r#""client-key-data" is missing"#,
        ),
        (
            SERVER,
            "client-certificate-data: '?', client-key-data: aaaa",
            None,
            "not base64",
        ),
    ] {
        let text = fault(cluster, user, context);
        assert!(text.contains(want), "{text}\n  lacks {want}");
    }
    for (bytes, want) in [
        (&b"\xff\xfe"[..], "not UTF-8"),
        (b"a: [", "can't be parsed"),
        (b"contexts: 5", "can't be parsed"),
        (b"contexts: []", "no current-context"),
        (b"current-context: a\ncontexts: []", "there is none"),
    ] {
        let text = parse(bytes, None).unwrap_err().to_string();
        assert!(text.contains(want), "{text}\n  lacks {want}");
    }
}

#[test]
fn a_fault_shows_no_secret() {
    for text in [
        "users:\n- name: u\n  user: {token: hunter2, exec: [}",
        // Secrets that hold something else, whose names are no secret.
        "hunter2",
        "- hunter2",
        "contexts: hunter2",
        "current-context: {hunter2: 1}",
        "\"hunter2",
        "users: [{name: hunter2, user: 5}]",
    ] {
        let text = parse(text.as_bytes(), None).unwrap_err().to_string();
        assert!(!text.contains("hunter2"), "{text}");
    }
    let text = fault("server: 'https://me:hunter2@one/a b'", "", None);
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn a_fault_is_told_in_few_words() {
    let long = "n".repeat(20_000);
    let whole = file(SERVER, "exec: {command: x}");
    let contexts = format!("contexts: [{}]", format!("{{name: {long}}},").repeat(9));
    for text in [
        contexts + "\ncurrent-context: x",
        whole.replace("cluster: c,", &format!("cluster: {long},")),
        whole.replace("user: u,", &format!("user: {long},")),
        whole
            .replace("main", &long)
            .replace("cluster: c,", "cluster: x,"),
        whole
            .replace("user: u,", &format!("user: {long},"))
            .replace("name: u", &format!("name: {long}")),
        file(&format!("server: '{long}'"), ""),
        file(SERVER, "")
            .replace("cluster: c,", &format!("cluster: {long},"))
            .replace("name: c\n", &format!("name: {long}\n"))
            .replace(SERVER, "proxy-url: x, server: 'https://a'"),
        // A line of what is no certificate.
        file(
            "server: 'https://a', certificate-authority-data: LS0tLS1CRUdJTiBodW50ZXIy",
            "",
        ),
    ] {
        let told = parse(text.as_bytes(), None).unwrap_err().to_string();
        assert!(told.len() < 4096, "{} bytes", told.len());
        assert!(!told.contains("[45, 45"), "{told}");
    }
    let unknown = parse(whole.as_bytes(), Some(&long)).unwrap_err();
    assert!(unknown.to_string().len() < 4096);
}

#[test]
fn what_is_too_large_to_be_read_at_once_says_so() {
    let values = |count: usize| {
        let list = "a, ".repeat(count);
        format!(
            "extensions: [{{name: a, extension: [{list}]}}]\n{}",
            file(SERVER, "token: t")
        )
    };
    assert!(parse(values(VALUES / 2).as_bytes(), None).is_ok());
    let long = format!("# {}\n{}", "n".repeat(LONGEST), file(SERVER, "token: t"));
    for text in [values(VALUES), long] {
        assert_eq!(
            parse(text.as_bytes(), None).unwrap_err(),
            KubeconfigFault::TooLarge
        );
    }
}

#[test]
fn yaml_that_grows_when_it_is_read_is_refused() {
    let level = |level: u32| {
        let inner = format!("*a{level}, ").repeat(10);
        let outer = level + 1;
        format!("a{outer}: &a{outer} [{inner}]\n")
    };
    let levels: Vec<String> = (0..9).map(level).collect();
    let first = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
    let text = [first, &levels.concat(), &file(SERVER, "token: t")].concat();
    assert!(parse(text.as_bytes(), None).is_err());
    let deep = format!("extensions: {}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(parse(deep.as_bytes(), None).is_err());
}
