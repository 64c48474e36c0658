//! `kubectl pilotage` is completed by the real kubectl, which asks `kubectl_complete-pilotage` for words.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use pilotage_testkit::pilotage;
use pilotage_testkit::tools::Tools;

fn said(program: &Path, words: &[&str], path: &OsString) -> String {
    let output = Command::new(program)
        .args(words)
        .env("PATH", path)
        .env("KUBECONFIG", "/nonexistent")
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn kubectl_completes_words_of_the_plugin() {
    let directory = std::env::temp_dir().join(pilotage_testkit::unique());
    fs::create_dir(&directory).unwrap();
    let plugin = directory.join("kubectl-pilotage");
    symlink(pilotage::binary().unwrap(), &plugin).unwrap();
    let before = std::env::var_os("PATH").unwrap_or_default();
    let mut path = directory.clone().into_os_string();
    path.push(":");
    path.push(before);
    let completer = directory.join("kubectl_complete-pilotage");
    let script = said(&plugin, &["completion", "kubectl"], &path);
    fs::write(&completer, script).unwrap();
    fs::set_permissions(&completer, Permissions::from_mode(0o755)).unwrap();

    let kubectl = Tools::find().unwrap().path("kubectl").unwrap();
    let asks = |words: &[&str]| {
        let words = [&["__complete", "pilotage"][..], words].concat();
        said(&kubectl, &words, &path)
    };
    let commands = asks(&["dr"]);
    assert!(
        commands.starts_with("drain\tKeeps new pods away"),
        "{commands}"
    );
    // No files beside them.
    assert!(commands.contains("\n:4\n"), "{commands}");
    assert!(asks(&["drain", "shop/paris", "--mo"]).starts_with("--move\t"));
    let kinds = asks(&["status", "--output", ""]);
    assert!(kinds.contains("yaml") && kinds.contains("wide"), "{kinds}");
    assert!(asks(&["status", "--kubeconfig", ""]).contains(":0\n"));
    fs::remove_dir_all(&directory).unwrap();
}
