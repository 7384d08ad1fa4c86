//! Members that come, leave and die. Each has a runtime and a connection of its own, as a process has.

use std::time::Duration;

use resile_redis::Fleet;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{AbortHandle, JoinSet};

use crate::crew::{Load, Mate, Times, all_share, limited};
use crate::scene::{BURST, CALLERS, LIMIT};

/// The fewest and the most members.
const FEWEST: usize = 3;
pub(super) const MOST: u32 = 10;
/// The least number by which a member without a server divides the limit.
pub(super) const LEAST: u32 = 6;

struct Process {
    runtime: Runtime,
    mate: Mate,
    callers: Vec<AbortHandle>,
    /// The way to the server.
    way: usize,
    /// The exchanges at the last look.
    exchanges: u64,
}

pub(super) struct Crowd {
    ways: Vec<String>,
    processes: Vec<Process>,
    joined: usize,
    load: Load,
    leaving: JoinSet<()>,
}

impl Crowd {
    pub(super) fn new(ways: Vec<String>) -> Self {
        let (load, leaving) = (Load::new(), JoinSet::new());
        Self { ways, processes: Vec::new(), joined: 0, load, leaving }
    }

    /// Adds a member with its callers, unless there are many.
    pub(super) fn join(&mut self) {
        if self.count() >= MOST {
            return;
        }
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let way = self.joined % self.ways.len();
        self.joined += 1;
        let process = {
            let _entered = runtime.enter();
            let fleet = Fleet::new(&self.ways[way]).unwrap().with_least_members(LEAST);
            let mate = Mate::join(&fleet, limited(LIMIT, BURST));
            let callers = (0..CALLERS).map(|_| self.load.add_caller(&mate)).collect();
            (mate, callers)
        };
        let (mate, callers) = process;
        self.processes.push(Process { runtime, mate, callers, way, exchanges: 0 });
    }

    /// Stops the calls of a member, which then leaves in order.
    pub(super) fn leave(&mut self, which: usize) {
        let Some(Process { runtime, mate, callers, .. }) = self.take(which) else { return };
        callers.iter().for_each(AbortHandle::abort);
        self.leaving.spawn(async move {
            mate.member.leave().await;
            runtime.shutdown_background();
        });
    }

    /// Ends a member as a crash does: nothing is given back.
    pub(super) fn die(&mut self, which: usize) {
        if let Some(process) = self.take(which) {
            process.runtime.shutdown_background();
        }
    }

    fn take(&mut self, which: usize) -> Option<Process> {
        let count = self.processes.len();
        (count > FEWEST).then(|| self.processes.remove(which % count))
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.processes.len()).unwrap()
    }

    /// Returns the number of members on a way, or of all for `None`.
    pub(super) fn members_at(&self, way: Option<usize>) -> u32 {
        let is_there = |process: &&Process| way.is_none_or(|way| process.way == way);
        u32::try_from(self.processes.iter().filter(is_there).count()).unwrap()
    }

    pub(super) async fn all_share(&self) {
        let mates: Vec<_> = self.processes.iter().map(|process| process.mate.clone()).collect();
        all_share(&mates).await;
    }

    /// Checks that the task of each member exchanged something since the last look.
    pub(super) fn all_live(&mut self) {
        for Process { mate, exchanges, .. } in &mut self.processes {
            let snapshot = mate.member.snapshot();
            assert!(snapshot.is_joined && snapshot.exchanges > *exchanges, "{snapshot:?}");
            *exchanges = snapshot.exchanges;
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.load.now()
    }

    pub(super) fn times(&self) -> Times {
        self.load.times()
    }

    /// Ends all members.
    pub(super) async fn end(mut self) {
        for process in self.processes {
            process.runtime.shutdown_background();
        }
        while self.leaving.join_next().await.is_some() {}
    }
}
