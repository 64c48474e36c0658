//! Owns what is said of one Shoot by all that is known: a Seed, or why there is none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilotage_placement::{Loss, Ranked, Request, Selection, select};

use super::ShootKey;
use super::note::note;
use super::world::World;
use crate::kinds::{CloudProfile, Shoot, choose};
use crate::message::{Texts, unasked};
use crate::request::{RequestError, profile_id, request};

/// What a selection says.
pub(super) enum Verdict {
    Seed {
        seed: Arc<str>,
        /// What was asked for.
        request: Arc<Request>,
    },
    Nobody {
        message: String,
        note: String,
        /// What was asked for, if it came to a selection.
        request: Option<Arc<Request>>,
    },
}

impl World {
    /// What a selection says, or why there is none.
    pub(super) fn judge(&self, key: &ShootKey) -> Verdict {
        let failed = |message: String| Verdict::Nobody {
            note: note(&message, None),
            message,
            request: None,
        };
        let Some(waiting) = self.waiting.get(key) else {
            return failed("it is gone".to_owned());
        };
        let shoot = match &waiting.object.shoot {
            Ok(shoot) => shoot,
            Err(error) => return failed(format!("the Shoot can't be read: {error}")),
        };
        let (mut request, profile) = match self.ask(shoot) {
            Ok(asked) => asked,
            Err(error) => return failed(unasked(&error)),
        };
        if self.spreads {
            request.peers = Some(self.places.peers(&key.namespace));
        }
        let selection = select(&request, self.places.candidates(), &self.settings);
        // Whom a change could help doesn't depend on them.
        request.peers = None;
        if let Some(chosen) = next(&selection, &waiting.refused) {
            return Verdict::Seed {
                seed: chosen.name.clone(),
                request: Arc::new(request),
            };
        }
        let texts = Texts {
            request: &request,
            settings: &self.settings,
            profile: &profile.name,
        };
        let message = texts.failure(&selection).unwrap_or_default();
        Verdict::Nobody {
            note: note(&message, Some(&selection)),
            message,
            request: Some(Arc::new(request)),
        }
    }

    /// What a Shoot asks for, and by which profile.
    fn ask(&self, shoot: &Shoot) -> Result<(Request, &CloudProfile), RequestError> {
        let id = profile_id(shoot)?;
        let profile = match self.profiles.get(&id) {
            Some(Ok(profile)) => profile,
            Some(Err(error)) => return Err(RequestError::unreadable(&id, error.clone())),
            None => return Err(RequestError::not_found(shoot, &id)),
        };
        let table = choose(self.configs.values(), &profile.name);
        let table = table.map(|config| config.table.clone());
        let projects = self.projects.get(&shoot.namespace);
        let projects = projects.into_iter().flat_map(BTreeMap::values);
        Ok((request(shoot, profile, projects, table)?, profile))
    }
}

/// The winner; or, if that has refused, the first of its equals that hasn't. Whoever breaks ties by chance gets past
/// a refusal sooner or later, so whoever breaks them by name must, too.
fn next<'a>(selection: &'a Selection, refused: &BTreeSet<Arc<str>>) -> Option<&'a Ranked> {
    let winner = selection.winner()?;
    let mut equals = selection
        .ranking
        .iter()
        .take_while(|one| one.loss_to(winner) == Loss::Name);
    let willing = equals.find(|one| !refused.contains(&one.name));
    Some(willing.unwrap_or(winner))
}
