//! Who runs the commands for people: kubeconfigs, contexts, and how a command ended.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use pilotage_testkit::{ControlPlane, pilotage};

/// Who runs the commands: kubeconfigs and contexts of both clusters.
pub(super) struct User {
    pub(super) plugin: PathBuf,
    pub(super) source: PathBuf,
    pub(super) target: PathBuf,
}

/// How a command ended: exit code, standard output, standard error.
pub(super) type Ended = (i32, String, String);

impl User {
    pub(super) fn new(source: &ControlPlane, target: &ControlPlane) -> Self {
        let directory = source.directory().join(pilotage_testkit::unique());
        std::fs::create_dir(&directory).unwrap();
        let plugin = directory.join("kubectl-pilotage");
        symlink(pilotage::binary().unwrap(), &plugin).unwrap();
        Self {
            plugin,
            source: source.admin_kubeconfig(),
            target: target.admin_kubeconfig(),
        }
    }

    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.plugin);
        command.args(words).arg("--kubeconfig").arg(&self.source);
        if words[0].ends_with("connect") || words[0] == "version" {
            command.arg("--target-kubeconfig").arg(&self.target);
        }
        command
    }

    pub(super) async fn run(&self, words: &[&str]) -> Ended {
        let mut command = self.command(words);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap());
        let output = output.await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code().unwrap(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    /// It fails with this code, and its last line, which is returned, has these words.
    pub(super) async fn fails(&self, words: &[&str], code: i32, said: &[&str]) -> String {
        let (ended, out, err) = self.run(words).await;
        assert_eq!((ended, &*out), (code, ""), "{words:?}: {err}");
        let last = err.lines().last().unwrap_or_default();
        for word in said {
            assert!(last.contains(word), "{word} in: {err}");
        }
        if code == 4 {
            assert_eq!(err.lines().count(), 1, "{err}");
        }
        last.to_owned()
    }
}
