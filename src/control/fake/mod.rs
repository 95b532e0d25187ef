// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A node's egress in memory, for tests of what uses it: without root, kernel or time.
//!
//! A [`Fake`] is what all processes of a node share: groups, routes, tenants, pins, and the barrier.
//! A [`FakeKernel`] is the process that publishes, a [`FakeRoutes`] one that sets up tenants; of both
//! there can be several. Each thing that they ask for is an [`Operation`], before which a hook can let
//! another process act, and which can be made to fail, also after it was done, or to be the last that
//! its process does. A suite of tests says that all of it behaves as the kernel does.
//!
//! ```
//! use std::time::Duration;
//!
//! use guideway::control::fake::Fake;
//! use guideway::control::kernel::Kernel;
//! use guideway::group::{plan, Class, GroupSpec, HighWater, Limits, Place};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let fake = Fake::new(Limits::default());
//! let mut kernel = fake.kernel();
//! let group = guideway::group::GroupId::new(0).ok_or("no group")?;
//! let place = Place { group, class: Class::Nat66, hash_group: Default::default() };
//! let context = guideway::group::Context { limits: Limits::default(), ..Default::default() };
//! let opened = plan(None, &place, &GroupSpec::default(), &context)?;
//! assert!(kernel.publish(&[opened])?.remove(0).is_ok());
//! assert!(fake.world(|world| world.groups[&group].forwards()));
//! # Ok(())
//! # }
//! ```

mod guards;
mod process;
mod publish;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use process::{Fault, How, Pid};

use self::process::Process;
use self::state::State;
use super::kernel::Operation;
use crate::abi;
use crate::group::{GroupId, Limits, Snapshot};
use crate::oracle::egress::{decide, Decision, Packet, PinUse, Pins, World};
use crate::route::{Key, Route};
use crate::tenant::Tenant;

/// What all processes of a node share. A clone is the same node.
#[derive(Clone)]
pub struct Fake {
    shared: Arc<Shared>,
}

/// Called before each operation.
type Hook = Box<dyn FnMut(Pid, &Operation) + Send>;

struct Shared {
    state: Mutex<State>,
    hook: Mutex<Option<Hook>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A test that panicked has failed by that.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fake {
    /// A node where nothing was published or written yet, with room for 32,768 routes.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State::new(limits)),
                hook: Mutex::new(None),
            }),
        }
    }

    /// A process that publishes, started now: it remembers nothing.
    #[must_use]
    pub fn kernel(&self) -> FakeKernel {
        FakeKernel {
            process: Process::start(self),
        }
    }

    /// A process that sets up tenants, started now.
    #[must_use]
    pub fn routes(&self) -> FakeRoutes {
        FakeRoutes {
            process: Arc::new(Process::start(self)),
        }
    }

    /// Has `hook` called before each operation of each process. What it does itself is not told to it.
    pub fn set_hook(&self, hook: impl FnMut(Pid, &Operation) + Send + 'static) {
        *locked(&self.shared.hook) = Some(Box::new(hook));
    }

    /// Has nothing called any more.
    pub fn clear_hook(&self) {
        *locked(&self.shared.hook) = None;
    }

    /// Lets time pass.
    pub fn advance(&self, time: Duration) {
        self.with(|state| state.now += time);
    }

    /// How many routes there is room for from now on.
    pub fn set_room(&self, routes: usize) {
        self.with(|state| state.room = routes);
    }

    /// Writes the row of an interface, as a program does that keeps no barrier.
    pub fn put_tenant(&self, ifindex: u32, tenant: Tenant) {
        self.with(|state| {
            state.world.tenants.insert(ifindex, tenant);
            let used = &mut state.pins.used;
            used.entry(tenant.table).or_insert(PinUse::default());
        });
    }

    /// Removes the row of an interface, as a program does that keeps no barrier.
    pub fn remove_tenant(&self, ifindex: u32) {
        self.with(|state| state.world.tenants.remove(&ifindex));
    }

    /// Writes a route, as a program does that keeps no barrier.
    pub fn put_route(&self, key: Key, route: Route) {
        self.with(|state| {
            state.senseless.remove(&key);
            state.world.routes.insert(key, route);
        });
    }

    /// Writes a row of a route, whether or not it makes sense, as a program does that keeps no
    /// barrier.
    pub fn put_row(&self, key: Key, row: abi::Route) {
        self.with(|state| state.put_row(key, row));
    }

    /// Removes a route, as a program does that keeps no barrier.
    pub fn remove_route(&self, key: &Key) {
        self.with(|state| {
            state.senseless.remove(key);
            state.world.routes.remove(key)
        });
    }

    /// Puts a group into force without a publication.
    pub fn force_group(&self, snapshot: Snapshot) {
        self.with(|state| {
            state.damaged.remove(&snapshot.group);
            state.world.groups.insert(snapshot.group, snapshot)
        });
    }

    /// Damages what is published of a group. `rest` is what is left of it, which packets find as well;
    /// none: nobody can read it any more, and packets go on by what they have.
    pub fn damage(&self, group: GroupId, rest: Option<Snapshot>) {
        self.with(|state| {
            state.damaged.insert(group, rest.is_some());
            state.world.groups.extend(rest.map(|rest| (group, rest)));
        });
    }

    /// Looks at what packets find; rows that make no sense are not in it.
    pub fn world<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        self.with(|state| look(&state.world))
    }

    /// Looks at the pins.
    pub fn pins<T>(&self, look: impl FnOnce(&mut Pins) -> T) -> T {
        self.with(|state| look(&mut state.pins))
    }

    /// What happens to a packet, which leaves a pin behind where packets do.
    pub fn send(&self, packet: &Packet<'_>) -> Decision {
        self.with(|state| {
            let State { world, pins, .. } = state;
            decide(world, pins, packet)
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut locked(&self.shared.state))
    }
}

impl std::fmt::Debug for Fake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.with(|state| f.debug_tuple("Fake").field(&state.world).finish())
    }
}

/// A process that publishes. When it is dropped, its guards are given back and its memory is lost.
#[derive(Debug)]
pub struct FakeKernel {
    process: Process,
}

/// A process that sets up tenants.
#[derive(Debug)]
pub struct FakeRoutes {
    process: Arc<Process>,
}

macro_rules! faults {
    ($type:ident) => {
        impl $type {
            /// Its number.
            #[must_use]
            pub fn pid(&self) -> Pid {
                self.process.pid()
            }

            /// What goes wrong, once; none: nothing.
            pub fn set_fault(&self, fault: Option<Fault>) {
                self.process.set_fault(fault);
            }

            /// How many operations it has begun.
            #[must_use]
            pub fn operations(&self) -> u64 {
                self.process.operations()
            }

            /// Whether a fault has ended it: nothing that it does has an effect any more.
            #[must_use]
            pub fn is_killed(&self) -> bool {
                self.process.is_killed()
            }
        }
    };
}

faults!(FakeKernel);
faults!(FakeRoutes);
