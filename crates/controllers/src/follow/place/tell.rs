//! Who is told that an object isn't followed: its author, and those of some pods that wait for it.

use pilotage_model::followed::Kind;
use pilotage_sched_driver::publish::Regarding;

use super::super::act::Fault;
use super::super::brief::Brief;
use super::super::kinds::Followed;
use super::super::needs::{Key, TOLD};
use super::Place;

impl<K: Followed> Place<K> {
    /// The object, and some of the pods that wait for it.
    pub(super) fn concerned(&self, key: &Key, source: Option<&Brief>) -> Vec<Regarding> {
        let object = source.map(|source| Regarding {
            api_version: K::api_version(&()).into_owned(),
            kind: K::KIND.name().to_owned(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: source.uid.clone(),
        });
        let pods = self.parts.needs.pods(self.target.node(), key, TOLD);
        object.into_iter().chain(pods).collect()
    }

    /// Tells the authors of these why the object isn't followed.
    pub(super) fn tell(&self, key: &Key, whom: Vec<Regarding>, fault: &Fault) {
        let note = format!(
            "{} {} isn't followed to {}: {fault}",
            K::KIND,
            key.name,
            self.target.node()
        );
        tracing::warn!(namespace = key.namespace, note, "an object isn't followed");
        self.parts.tell_not_followed(whom.into_iter(), &note);
    }

    /// Tells of an object that is there, and needed by pods, and may not follow them: each of them once.
    pub(super) fn tell_of_right(&self, key: &Key) {
        let source = self.source(key);
        if source.is_none() || !self.parts.needs.has(self.target.node(), key) {
            return;
        }
        let mut whom = self.concerned(key, source.as_ref());
        let know = whom.iter().map(|it| it.uid.clone()).collect();
        let knew = self.remember(key, |memory| {
            std::mem::replace(&mut memory.told_of_right, know)
        });
        whom.retain(|it| !knew.contains(&it.uid));
        if !whom.is_empty() {
            self.tell(key, whom, &Fault::NoRight(K::RIGHT));
        }
    }

    /// Tells the author of a copy what it names and doesn't bring along: again, when that is something else.
    pub(super) fn tell_of_secrets(&self, key: &Key) {
        let object = self.objects.get(Some(&key.namespace), &key.name);
        let Some(object) = object else { return };
        let mut secrets = object.secrets();
        secrets.retain(|name| {
            let secret = Key {
                kind: Kind::Secret,
                namespace: key.namespace.clone(),
                name: name.clone(),
            };
            !self.parts.needs.has(self.target.node(), &secret)
        });
        let names = secrets.into_iter().collect::<Vec<_>>().join(", ");
        let knew = self.remember(key, |memory| {
            std::mem::replace(&mut memory.told_of_secrets, names.clone())
        });
        if names.is_empty() || names == knew {
            return;
        }
        let note = format!(
            "Secrets that only an Ingress names for TLS don't follow: its copy in {} uses what is called {names} there",
            self.target.node()
        );
        let author = Regarding::object(&*object);
        self.parts.tell_not_followed([author].into_iter(), &note);
    }
}
