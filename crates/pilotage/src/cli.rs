//! The command line: its commands, and the help that teaches what they are. Flags live beside what they configure.

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::cmd;

/// Runs pods of one Kubernetes cluster in other clusters.
///
/// A pod annotated multicluster.admiralty.io/elect in a source cluster becomes a proxy pod. It is
/// asked for in several target clusters at once; each reserves a real node for it, exactly one binds
/// it there, and its status flows back. The proxy pod itself is bound to a virtual node, which stands
/// for the chosen target.
///
/// Where the parts run:
///
///   source cluster    webhook, controllers, proxy-scheduler
///   target cluster    controllers, candidate-scheduler
///
/// A cluster may be both. "all" runs every part in one process. Parts that find nothing to do stay
/// idle, so it is right for sources and targets alike. "scheduler" and the commands for Gardener
/// are for themselves.
#[derive(Debug, Parser)]
#[command(
    name = "pilotage",
    version,
    after_long_help = EXAMPLES,
    subcommand_required = true,
    arg_required_else_help = true,
    verbatim_doc_comment
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Example: install definitions and roles in a cluster, then run everything there in one process:

  pilotage crds | kubectl apply --server-side -f -
  kubectl create namespace pilotage
  pilotage rbac --service-account pilotage/pilotage | kubectl apply -f -
  pilotage all

Each command explains itself: pilotage webhook --help";

/// The commands.
#[derive(Debug, Subcommand)]
#[allow(
    clippy::doc_markdown,
    rustdoc::bare_urls,
    reason = "these are help texts"
)]
pub enum Command {
    /// Source: turns elected pods into proxy pods when they are created.
    ///
    /// It runs in source clusters and serves an admission webhook over TLS, for pods with the annotation
    /// multicluster.admiralty.io/elect in namespaces labelled multicluster-scheduler=enabled; no other
    /// pod reaches it. It makes its own certificates, keeps them in a Secret, and installs its webhook
    /// configuration and the policy that keeps proxy pods off real nodes.
    ///
    /// Example, outside of the cluster that it serves:
    ///
    ///   pilotage webhook --kubeconfig source.kubeconfig --webhook-url https://10.0.0.7:9443
    #[command(verbatim_doc_comment)]
    Webhook(cmd::webhook::Args),

    /// Source and target: keeps targets, virtual nodes, sources, chaperons and statuses in order.
    ///
    /// It runs in every cluster. In a source it connects to the clusters that Targets and ClusterTargets
    /// name, keeps a virtual node for each, and carries statuses back to proxy pods. In a target it gives
    /// Sources their identity, makes a candidate pod for each PodChaperon, and publishes what room there
    /// is. Of several replicas one acts, the holder of a Lease.
    ///
    /// Example:
    ///
    ///   pilotage controllers --target-probe-period 2s
    #[command(verbatim_doc_comment)]
    Controllers(cmd::controllers::Args),

    /// Source: chooses a target for each proxy pod.
    ///
    /// It runs in source clusters, as the scheduler admiralty-proxy. For each proxy pod it ranks the
    /// virtual nodes, asks for a candidate in the best targets, chooses among those that have reserved a
    /// node, and binds the proxy pod to the virtual node of the one that it has granted. Of several
    /// replicas one acts, the holder of a Lease.
    ///
    /// Example:
    ///
    ///   pilotage proxy-scheduler --cluster-name paris
    #[command(verbatim_doc_comment)]
    ProxyScheduler(cmd::proxy_scheduler::Args),

    /// Target: reserves a real node for each candidate, and binds it once it is chosen.
    ///
    /// It runs in target clusters, as the scheduler admiralty-candidate, next to the cluster's own
    /// scheduler. For each candidate pod it runs a whole scheduling cycle, holds the node that came out
    /// of it for some seconds, and says so on the PodChaperon; it binds when the source grants it. Of
    /// several replicas one acts, the holder of a Lease.
    ///
    /// Example:
    ///
    ///   pilotage candidate-scheduler --hold-deadline 5s
    #[command(verbatim_doc_comment)]
    CandidateScheduler(cmd::candidate_scheduler::Args),

    /// Source and target: every part in one process.
    ///
    /// It runs in every cluster. Each part has a client of its own and its own Lease, as if it ran alone;
    /// when one ends, the process ends. Parts can be left out.
    ///
    /// Example, for a cluster that is only a target:
    ///
    ///   pilotage all --parts controllers,candidate-scheduler
    #[command(verbatim_doc_comment)]
    All(Box<cmd::all::Args>),

    /// One cluster: gives pods a node there, as kube-scheduler does.
    ///
    /// It runs in any cluster, next to the cluster's own scheduler, and needs no other part and no
    /// definitions. It places the pods that ask for it (spec.schedulerName), by kube-scheduler's
    /// plugins as far as they exist here. A pod that needs what none of them knows stays Pending and
    /// is told so by name. Pods of lower priority make room for one that fits nowhere, as beside
    /// kube-scheduler. Of several replicas one acts, the holder of a Lease.
    ///
    /// Example:
    ///
    ///   pilotage scheduler --scheduler-name harbour
    #[command(verbatim_doc_comment)]
    Scheduler(cmd::scheduler::Args),

    /// Prints the custom resource definitions.
    ///
    /// They belong into every cluster, source or target, before anything else of Pilotage. They are those
    /// of Admiralty's API group, so that the objects of an existing installation stay valid.
    ///
    /// Example:
    ///
    ///   pilotage crds | kubectl apply --server-side -f -
    #[command(verbatim_doc_comment)]
    Crds(cmd::crds::Args),

    /// Prints the admission configuration that the webhook installs: its own, and policies with their bindings.
    ///
    /// It is for who installs that otherwise, and runs the webhook with --manage-configuration=false. One
    /// policy keeps proxy pods off real nodes and lets only the accounts that --record-writer names write
    /// their record; the other one refuses long names on Targets. Without --record-writer all service
    /// accounts of the webhook's namespace may write records. The webhook adds its CA bundle itself.
    ///
    /// Example:
    ///
    ///   pilotage admission --record-writer system:serviceaccount:pilotage:pilotage | kubectl apply --server-side -f -
    #[command(verbatim_doc_comment)]
    Admission(cmd::admission::Args),

    /// Prints the roles that the parts need, no more and no less.
    ///
    /// Each part has roles of its own, called pilotage-PART: a ClusterRole, and a Role in each namespace
    /// where it needs more. With --service-account, the account and its bindings are printed, too. It
    /// must run where these roles may be given: Kubernetes lets nobody give rights that he doesn't have.
    ///
    /// Examples, for one process and for a process a part:
    ///
    ///   pilotage rbac --service-account pilotage/pilotage | kubectl apply -f -
    ///   pilotage rbac --component webhook --service-account pilotage/webhook | kubectl apply -f -
    #[command(verbatim_doc_comment)]
    Rbac(cmd::rbac::Args),

    /// Source and target: takes off what keeps objects from being deleted, once Pilotage is gone.
    ///
    /// It belongs to the end of an uninstallation, of Pilotage or of Admiralty. Finalizers of both, on pods,
    /// Services, Ingresses, ConfigMaps, Secrets, Targets and PodChaperons, say that somebody has yet to
    /// clean up behind the object; when nobody is left who does, they keep it and its namespace for
    /// ever. It refuses as long as a part of Pilotage runs there, as far as Leases of the usual names
    /// tell: stop parts with --leader-elect=false or --lease-name first. What runs elsewhere stays there.
    ///
    /// First it deletes what the webhook installed: while that stays, the API server asks a webhook that is
    /// gone, and refuses elected pods. --admission-only does nothing else. At the end it looks whether that
    /// came back, which is how a webhook shows that still runs. What it may not read or write it names, goes
    /// on with the rest, and ends with 1.
    ///
    /// Examples, first to look and then to do it:
    ///
    ///   pilotage cleanup --dry-run
    ///   pilotage cleanup --namespace pilotage
    ///   pilotage cleanup --in-namespace shop
    ///
    /// --admiralty belongs to a migration: it takes Admiralty's finalizers off what follows pods, while
    /// Pilotage runs.
    #[command(verbatim_doc_comment)]
    Cleanup(cmd::cleanup::Args),

    /// Source and target: takes away what install made; with --check, says what is left.
    ///
    /// It refuses while pods run elsewhere for this cluster, or here for others: nobody would end what runs
    /// when its proxy is deleted. --leave-pods does it all the same, and leaves them alone. The webhook's
    /// configuration goes first, so that nobody is kept from creating pods, then the parts, and what they
    /// needed; then finalizers are taken off, as by cleanup. The namespace stays. Definitions stay, with all
    /// Targets and Sources, unless --with-definitions is given. It may be given again at any time. What
    /// Helm has installed it leaves alone.
    ///
    /// With --check it reads alone, however Pilotage was installed: which pods run in which target, for which
    /// sources pods, PodChaperons and copies of other objects are here, and on how many objects there are
    /// finalizers that only Pilotage takes off when they are due.
    ///
    /// Exit codes: 0 it is gone, or nothing is left; 1 a request failed; 2 the command line is wrong; 3 the
    /// parts don't end in time, or --check found something; 4 nothing was deleted, since something is wrong
    /// that it names.
    ///
    /// Examples:
    ///
    ///   pilotage uninstall --check --context london
    ///   pilotage uninstall --context london --dry-run
    ///   pilotage uninstall --context london
    #[command(verbatim_doc_comment)]
    Uninstall(cmd::uninstall::Args),

    /// Gardener: places Shoots, instead of gardener-scheduler.
    ///
    /// It runs beside Gardener's API server and takes the configuration file of gardener-scheduler. Each Shoot
    /// without a seed gets one by Gardener's rules, or is told why not in its last operation and by an
    /// event. It holds the Lease of gardener-scheduler, so that the two never act at once. A change of a
    /// Seed, a profile, a project or a table of distances wakes the Shoots that it could help.
    ///
    /// Example:
    ///
    ///   pilotage gardener-scheduler --config scheduler.yaml
    #[command(verbatim_doc_comment)]
    GardenerScheduler(cmd::gardener_scheduler::Args),

    /// Gardener: shows which seed a shoot gets, and why it doesn't get the others.
    ///
    /// It runs the pipeline of seed selection on files and needs no cluster. Files are YAML or JSON,
    /// with one object or many, or lists as kubectl prints them. Without --shoots, seeds count as
    /// empty. It prints who wins, and for each other seed why it lost or at which step it fell out.
    /// With --kubeconfig, seeds, profiles, projects, other shoots and distances are read from a garden
    /// as it is now. Nothing is written there.
    ///
    /// Exit codes: 0 a seed was found, 1 something else failed, 2 the command line is wrong, 3 no seed
    /// can have the shoot, 4 a file can't be read or isn't what it should be.
    ///
    /// Examples:
    ///
    ///   pilotage select-seed --shoot s.yaml --seeds seeds.yaml --cloudprofile cp.yaml
    ///   pilotage select-seed --shoot s.yaml --seeds s1.yaml --seeds s2.yaml --cloudprofile c.yaml -o json
    ///   pilotage select-seed --kubeconfig garden.kubeconfig --shoot-name garden-dev/web
    #[command(verbatim_doc_comment)]
    SelectSeed(cmd::select_seed::Args),

    /// Installs Pilotage in a cluster, without Helm.
    ///
    /// It applies the definitions and what the Helm chart makes of its default values, which do for a
    /// source, a target, or both. Before it writes anything, it looks whether the cluster is new enough
    /// and asks it whether it would take everything. It may be given again at any time, also to upgrade.
    /// What a flag has turned on goes when that isn't given any more. What Helm has installed it leaves
    /// alone.
    ///
    /// It ends with 4 if nothing was written, since something is wrong that it names; with 3 if the parts
    /// don't run in time; with 1 if a request failed on the way.
    ///
    /// Examples, the second one for GitOps:
    ///
    ///   pilotage install --context london --image registry.example/pilotage:0.1.0
    ///   pilotage install --image registry.example/pilotage:0.1.0 --dry-run -o yaml
    #[command(verbatim_doc_comment)]
    Install(Box<pilotage_plugin::InstallArgs>),

    /// Connects two clusters: pods of the source may run in the target.
    ///
    /// It makes the Source, a token for it and, in the source, a Secret with a kubeconfig and the Target;
    /// labels the namespace; and waits until the Target is connected. Pilotage has to run in both
    /// clusters. It may be given again at any time, and goes on where it was interrupted. You need the
    /// rights for that in both clusters. The source renews the token before it ends; --token-life says how
    /// long it lives, and --renew-token makes it anew.
    ///
    /// It ends with 4 if nothing was written, since something is wrong that it names; with 3 if
    /// something hasn't come about in time, and it goes on from there; with 1 if a request failed on the way, or if it
    /// was interrupted and put the earlier kubeconfig back.
    ///
    /// Examples, the second one for GitOps:
    ///
    ///   pilotage connect --source london --target paris --namespace shop --rights logs,exec
    ///   pilotage connect --source london --target paris --cluster-wide --dry-run -o yaml
    #[command(verbatim_doc_comment)]
    Connect(Box<pilotage_plugin::ConnectArgs>),

    /// Ends what connect has made, once the pods that run there are gone.
    ///
    /// It deletes the Target and waits for its pods to end, then the Secrets and the Source. Objects that
    /// somebody else made stay, and so do labels of namespaces. It may be given again at any time. If the
    /// target doesn't answer, it sees to the source alone, and says what is left.
    ///
    /// It ends with 4 if nothing was deleted, since something is wrong that it names; with 3 if the pods
    /// aren't gone in time (it says how they are given up); with 1 if a request failed on the way, or if
    /// the target's part is left.
    ///
    /// Example:
    ///
    ///   pilotage disconnect --source london --target paris --namespace shop
    #[command(verbatim_doc_comment)]
    Disconnect(Box<pilotage_plugin::DisconnectArgs>),

    /// Says which targets a source has, how they are, and what room they have; or how one pod is.
    ///
    /// It reads the source alone: Targets and ClusterTargets, since when they are connected or why they
    /// aren't, how many pods are there, and what their clusters say is free. It changes nothing.
    ///
    /// It ends with 4 if it can't tell, since something is wrong that it names; with 1 if a request failed.
    ///
    /// Examples:
    ///
    ///   pilotage status
    ///   pilotage status --watch -o wide
    ///   pilotage status pod web-0 --namespace shop
    ///   pilotage status --source london -o json
    #[command(verbatim_doc_comment)]
    Status(pilotage_plugin::StatusArgs),

    /// Opens a live page: targets with their room, pods by stage, who waits and why, what was lost.
    ///
    /// It finds the proxy scheduler that leads, and forwards a port of this machine to its admin port, as
    /// "kubectl port-forward" does: the API server says who may, by the rights get and create of
    /// pods/portforward where Pilotage runs. The proxy scheduler has to serve the page (--dashboard). The page
    /// changes nothing, shows pods of all namespaces, and goes on by itself when another one leads.
    ///
    /// It ends with 4 if there is no page, since something is wrong that it names; with 1 if a request failed.
    ///
    /// Examples:
    ///
    ///   pilotage dashboard
    ///   pilotage dashboard --source london --port 8080 --open
    #[command(verbatim_doc_comment)]
    Dashboard(pilotage_plugin::DashboardArgs),

    /// Says why a pod waits, or why it went where it is.
    ///
    /// It reads what the schedulers have recorded on the pod in the source, in its conditions,
    /// annotations and events: each target with its answer, and what happened when. It changes nothing.
    ///
    /// It ends with 4 if it can't tell, since something is wrong that it names; with 1 if a request failed.
    ///
    /// Example:
    ///
    ///   pilotage explain pod shop/web-0
    #[command(verbatim_doc_comment)]
    Explain(pilotage_plugin::ExplainCommand),

    /// Says what each target would answer about a pod, without running it.
    ///
    /// It makes a pod that is only a question: all targets try to reserve a node for it, and none gets it.
    /// It is deleted when the answers are in, and nothing stays in the targets. What is held for it
    /// meanwhile, a few seconds, others can't have. The file has a pod, or what has a template of pods.
    ///
    /// It ends with 4 if nothing was asked, since something is wrong that it names; with 3 if the answers
    /// aren't in in time; with 1 if a request failed on the way, or if it was interrupted.
    ///
    /// Example:
    ///
    ///   pilotage what-if -f deployment.yaml --namespace shop
    #[command(verbatim_doc_comment)]
    WhatIf(Box<pilotage_plugin::WhatIfArgs>),

    /// Says which versions run where: of this program, of Kubernetes, and of the parts of Pilotage.
    ///
    /// Each part that elects a leader (controllers, proxy-scheduler, candidate-scheduler) tells its version
    /// on its Lease in the namespace where Pilotage runs.
    ///
    /// It ends with 4 if it can't tell, since something is wrong that it names; with 1 if a request failed, or some
    /// of several clusters couldn't be asked.
    ///
    /// Examples:
    ///
    ///   pilotage version
    ///   pilotage version --source london --target paris,rome
    ///   pilotage version --client
    #[command(verbatim_doc_comment)]
    Version(pilotage_plugin::VersionArgs),

    /// Keeps new pods away from a target, and has those that are there made anew elsewhere.
    ///
    /// It cordons the virtual node of the Target, as "kubectl cordon" does. With --move, it evicts the
    /// pods there that have a controller, which makes others; disruption budgets count, and each pod is
    /// gone in the target before its name is free. Pods without a controller stay, and are named. A
    /// target that isn't connected is left alone by --move: forget gives it up.
    ///
    /// It ends with 4 if nothing was written, since something is wrong that it names; with 3 if not all
    /// pods are gone in time; with 1 if a request failed on the way.
    ///
    /// Examples:
    ///
    ///   pilotage drain shop/paris
    ///   pilotage drain shop/paris --move --timeout 10m
    ///   pilotage drain shop/paris --undo
    #[command(verbatim_doc_comment)]
    Drain(pilotage_plugin::DrainArgs),

    /// Gives up a target that never answers again, or never lets go of its pods.
    ///
    /// It annotates and deletes the Target, so that its pods are deleted in the source without waiting
    /// for word of them. They may run on there, and run a second time elsewhere: so it says first what
    /// would be given up, and does it only with --yes. A target that is connected isn't forgotten.
    ///
    /// It ends with 4 if nothing was written, since something is wrong that it names or --yes is missing;
    /// with 3 if the Target isn't gone in time; with 1 if a request failed on the way.
    ///
    /// Example:
    ///
    ///   pilotage forget shop/paris --yes
    #[command(verbatim_doc_comment)]
    Forget(pilotage_plugin::ForgetArgs),

    /// Prints what a shell needs to complete command lines of pilotage.
    ///
    /// "kubectl pilotage" is completed by kubectl, whose own completion has to be set up; it looks for a
    /// program kubectl_complete-pilotage in PATH, which has to be executable: the last example.
    ///
    /// Examples:
    ///
    ///   pilotage completion bash > /etc/bash_completion.d/pilotage
    ///   pilotage completion zsh > ~/.zsh/completions/_pilotage
    ///   pilotage completion fish > ~/.config/fish/completions/pilotage.fish
    ///   pilotage completion kubectl > ~/bin/kubectl_complete-pilotage && chmod +x ~/bin/kubectl_complete-pilotage
    #[command(verbatim_doc_comment)]
    Completion(cmd::completion::Args),
}

impl Cli {
    /// Parses a command line. The name by which it was started decides only what help calls it.
    pub fn from_line(line: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let line: Vec<OsString> = line.into_iter().collect();
        let mut command = Self::command();
        let called = pilotage_plugin::called(line.first().map(OsString::as_os_str));
        command = command.name(called).bin_name(called);
        let matches = command.try_get_matches_from_mut(line)?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

#[cfg(test)]
mod tests;
