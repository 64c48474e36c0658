//! The list with which a watch begins: page by page, each object looked at by itself, and never more than there is room
//! for.

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use futures::{AsyncBufReadExt, AsyncReadExt};
use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use pilotage_runtime::call::{self, CallError, Failure};
use pilotage_runtime::guarded::{Guarded, Unreadable};
use pilotage_runtime::slice::Slice;
use pilotage_runtime::weight::measure;
use serde_json::value::RawValue;

use super::limits::Beside;
use super::page::{GoesOn, Page};
use super::run::{Follower, Interruption};
use super::{SHORT, TOO_HEAVY, Watchable};
use crate::budget::{Amount, Excess, Room};
use crate::door::{Fault, OBJECT_WEIGHT};

/// Limit for one page.
const PAGE_LIMIT: Duration = Duration::from_secs(45);
/// So many pages of a list may bring nothing.
const SPARE_PAGES: usize = 100;
/// The others bring so many objects each, on average: each page is a request, and nobody pauses between them.
const A_PAGE: usize = 5;
/// A page that was too long is asked for again with so many times fewer objects.
const FEWER: u32 = 8;
/// Bytes of a page of this very cluster's objects: room for 500 of 16 KiB. Of a target the door bounds it.
const PAGE_BYTES: u64 = 8 << 20;

/// What an object that can't be read takes besides its names: their places here, and in the set that finds them.
const UNREAD: usize = 160;

/// What was read of a list.
struct Listed<K> {
    objects: Vec<K>,
    weight: usize,
    /// The objects of each namespace.
    kept_in: HashMap<String, Amount>,
    /// Namespaces and names of those that can't be read.
    unread: Vec<(String, String)>,
    unread_weight: usize,
    /// What it takes beyond what it will replace.
    room: Room,
}

impl<K: Watchable> Follower<K> {
    /// Lists all objects at `url`; from then on the watch has a position.
    pub(super) async fn list(&mut self, client: &Client, url: &str) -> Result<(), Interruption> {
        let request = Request::new(url.to_owned());
        let mut params = ListParams {
            label_selector: self.config.labels.clone(),
            field_selector: self.config.fields.clone(),
            ..ListParams::default()
        };
        let (mut size, mut most) = (self.config.page, self.config.page);
        let mut listed = Listed {
            objects: Vec::new(),
            weight: 0,
            kept_in: HashMap::new(),
            unread: Vec::new(),
            unread_weight: 0,
            room: self.core.store.room(),
        };
        let mut pages = 0_usize;
        let of_target = self.core.store.is_of_target();
        loop {
            let brought = listed.objects.len().saturating_add(listed.unread.len());
            // One's own API server ends its lists, however little a page brings.
            if of_target && pages > SPARE_PAGES.saturating_add(brought / A_PAGE) {
                return Err(Excess::Pages(pages).into());
            }
            pages = pages.saturating_add(1);
            params.limit = Some(size);
            // A single object may be as long as it is.
            let longest = (!of_target && size > 1).then_some(PAGE_BYTES);
            let page = async {
                let request = request.list(&params).map_err(kube::Error::BuildRequest)?;
                page_text(client, request, longest).await
            };
            let text = match call::within(PAGE_LIMIT, page).await {
                Ok(Some(text)) => text,
                Err(error) if error.kind() == Failure::Expired => {
                    return Err(Interruption::Expired);
                }
                Err(error) if size == 1 || !is_too_large(&error) => {
                    return Err(Interruption::List(error));
                }
                // A few large objects are nobody's fault.
                Ok(None) | Err(_) => {
                    (size, most) = ((size / FEWER).max(1), (size / 2).max(1));
                    continue;
                }
            };
            size = size.saturating_mul(2).min(most);
            let page = Page::read(&text)?;
            let mut slice = Slice::begin();
            for item in &page.items {
                self.add(&mut listed, item)?;
                slice.pause().await;
            }
            let (version, position) = match page.goes_on()? {
                GoesOn::At(token) => {
                    params.continue_token = Some(token);
                    continue;
                }
                GoesOn::No(version, position) => (version, position),
            };
            let Listed {
                objects,
                unread,
                room,
                weight,
                ..
            } = listed;
            self.core.store.check_queue(weight)?;
            self.core.store.replace(objects, &unread, &version, room);
            self.position = Some(position);
            self.works();
            self.hears_a_list();
            self.core.synced.send_replace(true);
            return Ok(());
        }
    }

    /// Takes in one object, if there is room for it beside what the list has so far.
    fn add(&self, listed: &mut Listed<K>, item: &RawValue) -> Result<(), Interruption> {
        self.core.store.look();
        let text = item.get();
        let heavy = self.core.store.is_of_target()
            && text.len() > SHORT
            && measure(text.as_bytes()).weight > OBJECT_WEIGHT;
        let guarded = if heavy {
            Guarded(Err(Unreadable::unread(TOO_HEAVY, text)))
        } else {
            self.core.read(text)
        };
        if let Err(unreadable) = &guarded.0 {
            let meta = &unreadable.metadata;
            let namespace = meta.namespace.clone().unwrap_or_default();
            let name = meta.name.clone().unwrap_or_default();
            let weight = UNREAD.saturating_add(namespace.len());
            let weight = weight.saturating_add(name.len());
            listed.unread_weight = listed.unread_weight.saturating_add(weight);
            listed.unread.push((namespace, name));
        }
        if let Some(mut object) = self.unwrap(guarded) {
            let namespace = object.meta().namespace.clone().unwrap_or_default();
            let kept = listed.kept_in.entry(namespace).or_default();
            let beside = Beside {
                namespace: *kept,
                everywhere: Amount::new(listed.objects.len(), listed.weight),
            };
            let weight = self.core.store.fit_beside(&mut object, beside);
            *kept = kept.and(Amount::new(1, weight));
            listed.weight = listed.weight.saturating_add(weight);
            listed.objects.push(object);
        }
        let count = listed.objects.len().saturating_add(listed.unread.len());
        // What can be read takes the place of what is there.
        let more = Amount::new(count, listed.weight).without(self.core.store.kept());
        let more = more.and(Amount::new(0, listed.unread_weight));
        listed.room.raise(more)?;
        Ok(())
    }
}

/// The text of a page; none, if it is longer than that.
async fn page_text(
    client: &Client,
    request: http::Request<Vec<u8>>,
    longest: Option<u64>,
) -> Result<Option<String>, kube::Error> {
    let Some(longest) = longest else {
        return client.request_text(request).await.map(Some);
    };
    let body = client.request_stream(request).await?;
    let mut body = pin!(body.take(longest.saturating_add(1)));
    let mut bytes = Vec::new();
    // `read_to_end` would clear all that it has reserved, again for each piece that comes.
    loop {
        let piece = body.fill_buf().await.map_err(kube::Error::ReadEvents)?;
        let length = piece.len();
        if length == 0 {
            break;
        }
        bytes.extend_from_slice(piece);
        body.consume_unpin(length);
    }
    if bytes.len() as u64 > longest {
        return Ok(None);
    }
    let text = String::from_utf8(bytes).map_err(kube::Error::FromUtf8)?;
    Ok(Some(text))
}

fn is_too_large(error: &CallError) -> bool {
    let CallError::Api(error) = error else {
        return false;
    };
    Fault::of(error).is_some_and(Fault::is_of_size)
}
