//! Owns the verdicts of plugins: success is `Ok`, everything else a [`Status`] with typed reasons.
//! Knows nothing of pods, nodes or extension points.
//!
//! Wait, Skip and the like are values of the few points that know them (see [`crate::plugin`]), so that
//! a Filter can't answer *Wait*. [`Code`] is the flat list of all of them, for metrics.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The name of a plugin, as written in configuration and metrics.
pub type PluginName = &'static str;

/// What a plugin says: `Ok`, or why not.
pub type Verdict<T = ()> = Result<T, Status>;

/// Every answer that a plugin can give at some point, as kube-scheduler names them in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// All is well.
    Success,
    /// An unexpected internal failure.
    Error,
    /// Rejected; preemption may help.
    Unschedulable,
    /// Rejected; preemption can't help.
    UnschedulableAndUnresolvable,
    /// Permit only: hold the pod.
    Wait,
    /// The plugin, or its coupled point, isn't concerned in this cycle.
    Skip,
    /// Rejected, but an external component now acts.
    Pending,
}

impl Code {
    /// The code's name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Error => "Error",
            Self::Unschedulable => "Unschedulable",
            Self::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
            Self::Wait => "Wait",
            Self::Skip => "Skip",
            Self::Pending => "Pending",
        }
    }
}

/// How a rejection may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RejectionKind {
    /// Rejected; removing pods of lower priority may help.
    Unschedulable,
    /// Rejected; removing pods can't help, so preemption leaves the node out.
    UnschedulableAndUnresolvable,
    /// Rejected, but the cycle was useful: an external component acts now, and the event that it causes
    /// brings the pod back without backoff.
    Pending,
}

impl RejectionKind {
    /// The flat code.
    pub const fn code(self) -> Code {
        match self {
            Self::Unschedulable => Code::Unschedulable,
            Self::UnschedulableAndUnresolvable => Code::UnschedulableAndUnresolvable,
            Self::Pending => Code::Pending,
        }
    }
}

/// One short reason, in words that users know; equal reasons are counted together over nodes.
///
/// Plugins whose reasons are a closed set keep an enum and turn it into this at the door.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reason(Cow<'static, str>);

impl Reason {
    /// A fixed text; costs no allocation.
    pub const fn fixed(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&'static str> for Reason {
    fn from(text: &'static str) -> Self {
        Self::fixed(text)
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A plugin's *no*: what kind of no, why, and who said it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rejection {
    kind: RejectionKind,
    // The first reason lives inline: one fixed reason a node, the usual case, allocates nothing.
    first: Reason,
    rest: Vec<Reason>,
    plugin: Option<PluginName>,
}

impl Rejection {
    /// A rejection of this kind for one reason. The framework adds the plugin's name.
    pub fn new(kind: RejectionKind, reason: impl Into<Reason>) -> Self {
        Self {
            kind,
            first: reason.into(),
            rest: Vec::new(),
            plugin: None,
        }
    }

    /// Adds a reason.
    #[must_use]
    pub fn and(mut self, reason: impl Into<Reason>) -> Self {
        self.rest.push(reason.into());
        self
    }

    /// Says which plugin it was, unless that is known already.
    #[must_use]
    pub fn by(mut self, plugin: PluginName) -> Self {
        self.plugin.get_or_insert(plugin);
        self
    }

    /// What kind of no.
    pub const fn kind(&self) -> RejectionKind {
        self.kind
    }

    /// Who said it; `None` for the framework's own rejections (malformed objects, absent nodes).
    pub const fn plugin(&self) -> Option<PluginName> {
        self.plugin
    }

    /// Why, at least one.
    pub fn reasons(&self) -> impl Iterator<Item = &Reason> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// Whether preemption may make room (kind *Unschedulable*).
    pub const fn resolvable(&self) -> bool {
        matches!(self.kind, RejectionKind::Unschedulable)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.first.as_str())?;
        for reason in &self.rest {
            write!(f, ", {reason}")?;
        }
        Ok(())
    }
}

/// An unexpected failure of a plugin. It ends the cycle; the pod is tried again after a backoff.
#[derive(Clone, Debug)]
pub struct PluginError {
    plugin: Option<PluginName>,
    source: Arc<dyn Error + Send + Sync>,
}

impl PluginError {
    /// Wraps the cause. The framework adds the plugin's name.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            plugin: None,
            source: Arc::from(cause.into()),
        }
    }

    /// Says which plugin it was, unless that is known already.
    #[must_use]
    pub fn by(mut self, plugin: PluginName) -> Self {
        self.plugin.get_or_insert(plugin);
        self
    }

    /// Whose failure it was; `None` for the framework's own.
    pub const fn plugin(&self) -> Option<PluginName> {
        self.plugin
    }

    /// The cause.
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.source
    }
}

impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.plugin {
            Some(plugin) => write!(f, "plugin {plugin:?} failed: {}", self.source),
            None => fmt::Display::fmt(&self.source, f),
        }
    }
}

impl Error for PluginError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}

/// Everything but success.
#[derive(Clone, Debug)]
pub enum Status {
    /// The plugin says no.
    Rejected(Rejection),
    /// The plugin couldn't say.
    Error(PluginError),
}

impl Status {
    /// Rejected; preemption may help.
    pub fn unschedulable(reason: impl Into<Reason>) -> Self {
        Self::Rejected(Rejection::new(RejectionKind::Unschedulable, reason))
    }

    /// Rejected; preemption can't help (`UnschedulableAndUnresolvable`).
    pub fn unresolvable(reason: impl Into<Reason>) -> Self {
        Self::Rejected(Rejection::new(
            RejectionKind::UnschedulableAndUnresolvable,
            reason,
        ))
    }

    /// Rejected, but an external component acts now.
    pub fn pending(reason: impl Into<Reason>) -> Self {
        Self::Rejected(Rejection::new(RejectionKind::Pending, reason))
    }

    /// An unexpected failure.
    pub fn error(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Error(PluginError::new(cause))
    }

    /// Says which plugin it was, unless that is known already.
    #[must_use]
    pub fn by(self, plugin: PluginName) -> Self {
        match self {
            Self::Rejected(rejection) => Self::Rejected(rejection.by(plugin)),
            Self::Error(error) => Self::Error(error.by(plugin)),
        }
    }

    /// Who said it.
    pub const fn plugin(&self) -> Option<PluginName> {
        match self {
            Self::Rejected(rejection) => rejection.plugin(),
            Self::Error(error) => error.plugin(),
        }
    }

    /// The flat code, for metrics.
    pub const fn code(&self) -> Code {
        match self {
            Self::Rejected(rejection) => rejection.kind.code(),
            Self::Error(_) => Code::Error,
        }
    }
}

impl From<Rejection> for Status {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl From<PluginError> for Status {
    fn from(error: PluginError) -> Self {
        Self::Error(error)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(rejection) => fmt::Display::fmt(rejection, f),
            Self::Error(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl Error for Status {}

#[cfg(test)]
mod tests {
    use super::{Code, Rejection, RejectionKind, Status};

    #[test]
    fn reasons_are_joined_and_the_first_name_stays() {
        let status = Status::from(
            Rejection::new(RejectionKind::Unschedulable, "Insufficient cpu")
                .and(String::from("Insufficient x/y"))
                .by("Inner"),
        )
        .by("Outer");
        assert_eq!(status.to_string(), "Insufficient cpu, Insufficient x/y");
        assert_eq!(status.plugin(), Some("Inner"));
        assert_eq!(status.code(), Code::Unschedulable);
    }

    #[test]
    fn an_error_says_whose_it_was() {
        let status = Status::error("no state").by("Fit");
        assert_eq!(status.to_string(), "plugin \"Fit\" failed: no state");
        assert_eq!(status.code().as_str(), "Error");
    }
}
