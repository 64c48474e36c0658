//! What happens around the processes: users, the kubelet, the garbage collector, and faults of the surroundings.

use crate::{
    bodies,
    server::{FOREGROUND, Object, Server},
    step::{Step, Word},
    world::World,
};

impl World {
    pub(crate) fn surroundings(&mut self, step: Step) -> bool {
        let (a, b, c) = (
            usize::from(step.a),
            usize::from(step.b),
            usize::from(step.c),
        );
        match step.word {
            Word::Create => self.create(a),
            Word::Delete => {
                let name = Self::proxy_name(a);
                let uid = self.servers[0]
                    .proxies
                    .get(&name)
                    .filter(|pod| !pod.is_ending());
                let Some(uid) = uid.map(|pod| pod.uid().to_owned()) else {
                    return false;
                };
                self.servers[0].delete_proxy(&name, &uid, false).is_ok()
            }
            Word::Remove if a < self.sites.len() => {
                self.sites[a].terms.leaving && std::mem::take(&mut self.sites[a].exists)
            }
            _ if a >= self.sites.len() => false,
            Word::Collect => self.collect(a, b),
            Word::Kubelet => self.kubelet(a, b),
            Word::Native => self.native(a, b),
            Word::Plain => self.plain(a, b, c),
            Word::Part => {
                self.sites[a].parted ^= true;
                true
            }
            Word::Room => {
                self.sites[a].fits ^= true;
                self.room(a);
                true
            }
            Word::Occupy => {
                let site = &mut self.sites[a];
                site.fits && site.occupants.come(b)
            }
            Word::Gone => {
                let goes = self.sites[a].occupants.go(b);
                if goes {
                    self.room(a);
                }
                goes
            }
            Word::Quota => {
                self.servers[a + 1].refuses_pods ^= true;
                true
            }
            Word::Rights => {
                self.servers[a + 1].refuses_chaperons ^= true;
                true
            }
            Word::Front => {
                self.sites[a].elsewhere ^= true;
                true
            }
            Word::Blind => self.blind(a, b),
            Word::Evict => {
                let server = &mut self.servers[a + 1];
                let Some(pod) = server.delegates.all().get(b).filter(|pod| !pod.is_ending()) else {
                    return false;
                };
                let (name, uid) = (pod.name().to_owned(), pod.uid().to_owned());
                server.delete_pod(&name, &uid).is_ok()
            }
            Word::Unask => {
                let server = &mut self.servers[a + 1];
                let chaperon = server.chaperons.all().get(b).filter(|c| !c.is_ending());
                let Some(name) = chaperon.map(|chaperon| chaperon.name().to_owned()) else {
                    return false;
                };
                server.delete_chaperon(&name, None, None, c == 1).is_ok()
            }
            Word::Label => self.servers[a + 1].move_label(b),
            Word::Forget => !std::mem::replace(&mut self.sites[a].terms.forgotten, true),
            Word::Leave => !std::mem::replace(&mut self.sites[a].terms.leaving, true),
            _ => false,
        }
    }

    /// The candidate schedulers of a target hear of room on its node.
    fn room(&mut self, target: usize) {
        if self.sites[target].fits {
            for slot in [4 + 4 * target, 5 + 4 * target] {
                self.candidate(slot, |process, cx, _| process.room(cx.now));
            }
        }
    }

    fn create(&mut self, n: usize) -> bool {
        let Some(made) = self.made.get_mut(n) else {
            return false;
        };
        if u32::from(self.config.lives) <= *made {
            return false;
        }
        let unreserved = self.config.unreserved & (1 << n) != 0;
        let body = bodies::proxy(&Self::proxy_name(n), unreserved, self.config.own_policy());
        if self.servers[0].create_proxy(body).is_none() {
            return false;
        }
        *made += 1;
        true
    }

    /// The garbage collector: a pod whose owner is gone, by a live read, goes; a foreground deletion ends with its
    /// pods.
    fn collect(&mut self, target: usize, n: usize) -> bool {
        let server = &mut self.servers[target + 1];
        let pods = server.delegates.all().len();
        if let Some(pod) = server.delegates.all().get(n) {
            let lives = owner_lives(server, pod.name(), pod.owner());
            let foreground = server
                .chaperons
                .get(pod.name())
                .is_some_and(|c| c.is_ending() && is_foreground(c) && pod.owner() == Some(c.uid()));
            if (lives && !foreground) || pod.is_ending() {
                return false;
            }
            let (name, uid) = (pod.name().to_owned(), pod.uid().to_owned());
            return server.delete_pod(&name, &uid).is_ok();
        }
        let Some(chaperon) = server.chaperons.all().get(n - pods) else {
            return false;
        };
        let dependent = server.delegates.get(chaperon.name());
        if !is_foreground(chaperon)
            || dependent.is_some_and(|pod| pod.owner() == Some(chaperon.uid()))
        {
            return false;
        }
        let name = chaperon.name().to_owned();
        server.end_foreground(&name)
    }

    /// The collector's graph lacks the pod.
    fn blind(&mut self, target: usize, n: usize) -> bool {
        let server = &mut self.servers[target + 1];
        let Some(chaperon) = server.chaperons.all().get(n).filter(|c| is_foreground(c)) else {
            return false;
        };
        let name = chaperon.name().to_owned();
        server.end_foreground(&name)
    }

    fn kubelet(&mut self, target: usize, n: usize) -> bool {
        let jobs = self.config.jobs > 0;
        let server = &mut self.servers[target + 1];
        let Some(pod) = server
            .delegates
            .all()
            .get(n)
            .filter(|pod| pod.node().is_some())
        else {
            return false;
        };
        let name = pod.name().to_owned();
        let (ending, phase) = (pod.is_ending(), pod.phase().to_owned());
        match (ending, &*phase) {
            (true, _) => server.end_pod(&name),
            (false, "Pending") => server.set_pod_status(&name, "phase", "Running".into()),
            (false, "Running") if jobs => {
                server.set_pod_status(&name, "phase", "Succeeded".into());
            }
            _ => return false,
        }
        true
    }

    /// The scheduler of pods that aren't reserved for.
    fn native(&mut self, target: usize, n: usize) -> bool {
        let fits = self.sites[target].takes();
        let server = &mut self.servers[target + 1];
        let Some(pod) = server.delegates.all().get(n).filter(|pod| {
            pod.node().is_none()
                && !pod.is_ending()
                && !pod.is_gated()
                && pod.scheduler() == "theirs"
                && (fits || !pod.is_unschedulable())
        }) else {
            return false;
        };
        let (name, uid) = (pod.name().to_owned(), pod.uid().to_owned());
        if !fits {
            server.refuse_pod(&name);
            return true;
        }
        let bound = server.bind_pod(&name, &uid, "n2").is_ok();
        self.check_bound(target + 1, &name);
        bound
    }
}

pub(crate) fn is_foreground(chaperon: &pilotage_api::PodChaperon) -> bool {
    let finalizers = chaperon.metadata.finalizers.as_ref();
    finalizers.is_some_and(|all| all.iter().any(|finalizer| finalizer == FOREGROUND))
}

pub(crate) fn owner_lives(server: &Server, name: &str, owner: Option<&str>) -> bool {
    let chaperon = server.chaperons.get(name);
    chaperon.is_some_and(|chaperon| Some(chaperon.uid()) == owner)
}
