//! Requests about chaperons.

use std::sync::Arc;

use pilotage_api::{PodChaperon, chaperon::PodChaperonStatus, keys};
use serde_json::Value;

use super::{ApiError, Deleted, Object, Server, patch};

/// Finalizer of a foreground deletion, which the garbage collector takes off.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// Where the label's value is kept meanwhile.
const TAKEN_OFF: &str = "example.com/parent-uid";

/// Whether its source finds it.
pub(crate) fn has_label(chaperon: &PodChaperon) -> bool {
    let labels = chaperon.metadata.labels.as_ref();
    labels.is_some_and(|labels| labels.contains_key(keys::PARENT_UID))
}

impl Server {
    /// POST.
    pub(crate) fn create_chaperon(
        &mut self,
        body: &PodChaperon,
    ) -> Result<Arc<PodChaperon>, ApiError> {
        if self.chaperons.get(body.name()).is_some() {
            return Err(ApiError::AlreadyExists);
        }
        if self.refuses_chaperons {
            return Err(ApiError::Forbidden);
        }
        let mut chaperon = body.clone();
        chaperon.metadata.uid = Some(self.next_uid());
        chaperon.metadata.generation = Some(1);
        Ok(self.put_chaperon(chaperon))
    }

    /// GET.
    pub(crate) fn chaperon(&self, name: &str) -> Result<Arc<PodChaperon>, ApiError> {
        self.chaperons.get(name).cloned().ok_or(ApiError::NotFound)
    }

    /// PATCH with a merge patch of the metadata.
    pub(crate) fn merge_chaperon(
        &mut self,
        name: &str,
        patch: &Value,
    ) -> Result<Arc<PodChaperon>, ApiError> {
        let known = self.chaperon(name)?;
        let mut chaperon = (*known).clone();
        let changed = patch::merge_metadata(&mut chaperon.metadata, &patch["metadata"])?;
        Ok(self.store_chaperon(known, chaperon, changed))
    }

    /// PATCH with a JSON patch of the metadata.
    pub(crate) fn json_chaperon(
        &mut self,
        name: &str,
        operations: &Value,
    ) -> Result<Arc<PodChaperon>, ApiError> {
        let known = self.chaperon(name)?;
        let mut chaperon = (*known).clone();
        let changed = patch::json_metadata(&mut chaperon.metadata, operations)?;
        Ok(self.store_chaperon(known, chaperon, changed))
    }

    /// PATCH of the status; the metadata only names what must hold.
    pub(crate) fn merge_chaperon_status(
        &mut self,
        name: &str,
        patch: &Value,
    ) -> Result<Arc<PodChaperon>, ApiError> {
        let known = self.chaperon(name)?;
        let mut chaperon = (*known).clone();
        patch::merge_metadata(&mut chaperon.metadata, &patch["metadata"])?;
        chaperon.metadata = known.metadata.clone();
        let status = chaperon
            .status
            .get_or_insert_with(PodChaperonStatus::default);
        let changed = patch["status"]
            .as_object()
            .is_some_and(|change| patch::merge(&mut status.0, change));
        Ok(self.store_chaperon(known, chaperon, changed))
    }

    /// DELETE with its preconditions.
    pub(crate) fn delete_chaperon(
        &mut self,
        name: &str,
        uid: Option<&str>,
        resource_version: Option<&str>,
        foreground: bool,
    ) -> Result<Deleted<Arc<PodChaperon>>, ApiError> {
        let known = self.chaperon(name)?;
        let meta = &known.metadata;
        let is = |wanted: Option<&str>, known: &Option<String>| {
            wanted.is_none_or(|wanted| known.as_deref() == Some(wanted))
        };
        if !is(uid, &meta.uid) || !is(resource_version, &meta.resource_version) {
            return Err(ApiError::Conflict);
        }
        if known.is_ending() {
            return Ok(Deleted::Ending(known));
        }
        let mut chaperon = (*known).clone();
        if foreground {
            let finalizers = chaperon.metadata.finalizers.get_or_insert_with(Vec::new);
            finalizers.push(FOREGROUND.to_owned());
        }
        if !chaperon.has_finalizers() {
            // Nothing is written before it goes: its last version doesn't say that it ends.
            chaperon.metadata.resource_version = Some(self.next_version().to_string());
            self.chaperons.remove(chaperon);
            return Ok(Deleted::Gone);
        }
        chaperon.metadata.deletion_timestamp = Some(super::delegates::sometime());
        Ok(Deleted::Ending(self.put_chaperon(chaperon)))
    }

    /// A user takes the label off the chaperon with this number, by which its source finds it, or puts it back. What is
    /// ending isn't touched: to those who watch it would look gone, as if its finalizer had been taken off.
    pub(crate) fn move_label(&mut self, n: usize) -> bool {
        let Some(known) = self.chaperons.all().get(n).filter(|c| !c.is_ending()) else {
            return false;
        };
        let mut chaperon = (**known).clone();
        let labels = chaperon.metadata.labels.get_or_insert_default();
        let (from, to) = if labels.contains_key(keys::PARENT_UID) {
            (keys::PARENT_UID, TAKEN_OFF)
        } else {
            (TAKEN_OFF, keys::PARENT_UID)
        };
        let Some(parent) = labels.remove(from) else {
            return false;
        };
        labels.insert(to.to_owned(), parent);
        self.put_chaperon(chaperon);
        true
    }

    /// The chaperon whose label is off, by its number.
    pub(crate) fn unlabelled(&self) -> Option<usize> {
        let mut chaperons = self.chaperons.all().iter();
        chaperons.position(|chaperon| !chaperon.is_ending() && !has_label(chaperon))
    }

    /// The garbage collector takes its finalizer off.
    pub(crate) fn end_foreground(&mut self, name: &str) -> bool {
        let Ok(known) = self.chaperon(name) else {
            return false;
        };
        let mut chaperon = (*known).clone();
        if let Some(finalizers) = &mut chaperon.metadata.finalizers {
            finalizers.retain(|finalizer| finalizer != FOREGROUND);
        }
        let changed = chaperon.metadata.finalizers != known.metadata.finalizers;
        self.store_chaperon(known, chaperon, changed);
        changed
    }

    /// Writes what changed; what ends without finalizers is gone.
    fn store_chaperon(
        &mut self,
        known: Arc<PodChaperon>,
        mut chaperon: PodChaperon,
        changed: bool,
    ) -> Arc<PodChaperon> {
        if !changed {
            return known;
        }
        if chaperon.is_ending() && !chaperon.has_finalizers() {
            // The reply has no newer version than the one before.
            let reply = Arc::new(chaperon.clone());
            chaperon.metadata.resource_version = Some(self.next_version().to_string());
            self.chaperons.remove(chaperon);
            return reply;
        }
        self.put_chaperon(chaperon)
    }

    fn put_chaperon(&mut self, mut chaperon: PodChaperon) -> Arc<PodChaperon> {
        chaperon.metadata.resource_version = Some(self.next_version().to_string());
        self.chaperons.put(chaperon)
    }
}
