//! The hooks are enough for a store of another kind: a small one in memory, under virtual time.

mod learned;
mod member;
mod store;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use resile::fleet::State;
use resile::quota::{Dimension, Limit, Limits, Rate};
use resile::upstream::Resource;
use resile::{Budget, Cooldown, Never, Quota, Upstream, Verdict};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use store::{Store, TTL};

const REQUESTS: Resource = Resource::Quota(Dimension::Requests);
const LIMIT: u32 = 100;
const BURST: u32 = 10;
const SECOND: Duration = Duration::from_secs(1);

/// Three upstreams of one name, as three processes have them.
struct Crew {
    store: Arc<Store>,
    upstreams: Vec<Arc<Upstream>>,
    tasks: Vec<JoinHandle<()>>,
    callers: Vec<Vec<JoinHandle<()>>>,
    began: Instant,
    times: Arc<Mutex<Vec<Duration>>>,
}

impl Crew {
    fn join(upstream: impl Fn() -> Upstream) -> Self {
        let (store, began) = (Arc::<Store>::default(), Instant::now());
        let upstreams: Vec<_> = (0..3).map(|_| Arc::new(upstream())).collect();
        let join = |(id, upstream)| member::join(upstream, &store, id);
        let tasks = (0..).zip(&upstreams).map(join).collect();
        Self { store, upstreams, tasks, callers: Vec::new(), began, times: Arc::default() }
    }

    /// Lets four callers at each upstream always want one unit more. Checks the limit at each call.
    fn call(&mut self) {
        for upstream in &self.upstreams {
            let callers = (0..4).map(|_| {
                let (upstream, times) = (Arc::clone(upstream), Arc::clone(&self.times));
                let began = self.began;
                tokio::spawn(async move {
                    loop {
                        upstream.admit(Never).await.unwrap().succeeded();
                        let mut times = times.lock().unwrap();
                        times.push(began.elapsed());
                        let count = u32::try_from(times.len()).unwrap();
                        let most = f64::from(LIMIT) * began.elapsed().as_secs_f64() + 1e-6;
                        assert!(f64::from(count) <= f64::from(BURST) + most, "{count}");
                    }
                })
            });
            self.callers.push(callers.collect());
        }
    }

    fn count(&self) -> i64 {
        i64::try_from(self.times.lock().unwrap().len()).unwrap()
    }

    /// Returns the admissions of the next time.
    async fn count_for(&self, time: Duration) -> i64 {
        let before = self.count();
        sleep(time).await;
        self.count() - before
    }

    /// Checks that no caller has ended by an error or by the limit.
    fn all_call(&self) {
        assert!(self.callers.iter().flatten().all(|caller| !caller.is_finished()));
        assert!(self.tasks.iter().all(|task| !task.is_finished()));
    }
}

fn limited() -> Upstream {
    let rate = Rate::per_second(u64::from(LIMIT)).with_burst(u64::from(BURST));
    Upstream::new("model").with_quota(Quota::new().with_requests(rate))
}

/// All members together make exactly `limit · time + burst` calls, and the store knows each.
#[tokio::test(start_paused = true)]
async fn three_upstreams_share_one_limit_exactly() {
    let mut crew = Crew::join(limited);
    crew.call();
    sleep(20 * SECOND).await;
    crew.all_call();
    let all = i64::from(LIMIT) * 20 + i64::from(BURST);
    let count = crew.count();
    assert!((all - 3..=all).contains(&count), "{count} of {all}");
    for upstream in &crew.upstreams {
        let status = upstream.fleet().unwrap();
        assert_eq!((status.state, status.members), (State::Shared, 3));
        assert!(status.age.unwrap() <= SECOND);
    }
    // After the calls each unit is in the books: nothing is lost and nothing is counted twice.
    crew.callers.iter().flatten().for_each(JoinHandle::abort);
    sleep(SECOND).await;
    assert_eq!(crew.store.spent(REQUESTS), crew.count());
}

/// A lease ends by itself. Calls then wait, and none fails.
#[tokio::test(start_paused = true)]
async fn without_a_store_a_lease_ends_and_the_calls_wait() {
    let mut crew = Crew::join(limited);
    crew.call();
    sleep(2 * SECOND).await;
    crew.store.is_silent.store(true, Ordering::Relaxed);
    sleep(TTL + SECOND / 10).await;
    assert_eq!(crew.count_for(5 * SECOND).await, 0);
    assert!(crew.upstreams.iter().all(|one| one.fleet().unwrap().state == State::Coasting));
    crew.store.is_silent.store(false, Ordering::Relaxed);
    let count = crew.count_for(5 * SECOND).await;
    assert!(
        (5 * i64::from(LIMIT)..=5 * i64::from(LIMIT) + i64::from(BURST)).contains(&count),
        "{count}"
    );
    crew.all_call();
}

/// The units of a dead member come back, and the others have the whole limit.
#[tokio::test(start_paused = true)]
async fn the_units_of_a_dead_member_come_back() {
    let mut crew = Crew::join(limited);
    crew.call();
    sleep(2 * SECOND).await;
    crew.callers.remove(0).iter().for_each(JoinHandle::abort);
    crew.tasks.remove(0).abort();
    sleep(TTL).await;
    let status = crew.upstreams[0].fleet().unwrap();
    assert_eq!(status.state, State::Left, "it is one process again");
    let count = crew.count_for(10 * SECOND).await;
    let all = 10 * i64::from(LIMIT);
    assert!((all - 3..=all + 3).contains(&count), "{count}");
    crew.all_call();
}

/// A hold of one is a hold of all within the pause of a member, and no copy becomes shorter.
#[tokio::test(start_paused = true)]
async fn a_hold_of_one_is_a_hold_of_all() {
    let crew = Crew::join(|| limited().with_cooldown(Cooldown::new()));
    sleep(SECOND).await;
    let began = Instant::now();
    crew.upstreams[1].hold(5 * SECOND);
    sleep(SECOND / 50).await;
    let ends = || -> Vec<Option<Duration>> {
        let end = |upstream: &Arc<Upstream>| Some(began.elapsed() + upstream.held()?);
        crew.upstreams.iter().map(end).collect()
    };
    let mut before = ends();
    while began.elapsed() < 49 * SECOND / 10 {
        let now = ends();
        for (now, before) in now.iter().zip(&before) {
            let (now, before) = (now.unwrap(), before.unwrap());
            assert!(now + Duration::from_micros(1) >= before, "{now:?} after {before:?}");
            assert!((5 * SECOND..5 * SECOND + SECOND / 10).contains(&now.max(5 * SECOND)));
        }
        before = now;
        sleep(SECOND / 20).await;
    }
    crew.upstreams[2].hold(3 * SECOND);
    sleep(SECOND / 50).await;
    assert!(ends().iter().all(|end| end.unwrap() > 7 * SECOND), "it becomes longer at all");
    sleep(4 * SECOND).await;
    assert!(ends().iter().all(Option::is_none));
}

/// All members together retry as one process does, and a deposit of one pays for another.
#[tokio::test(start_paused = true)]
async fn three_upstreams_have_the_budget_of_one() {
    let budget = || Budget::new().with_capacity(20).with_deposit(1.0);
    let cost = budget().costs().0;
    let crew = Crew::join(|| Upstream::new("model").with_budget(budget()));
    sleep(SECOND).await;
    let withdraw = |times: u32| {
        let upstreams = crew.upstreams.clone();
        async move {
            let mut paid = 0;
            for _ in 0..times {
                for upstream in &upstreams {
                    paid += u32::from(upstream.budget().unwrap().withdraw());
                }
                sleep(SECOND / 4).await;
            }
            paid
        }
    };
    assert_eq!(withdraw(40).await, 20 / cost);
    for _ in 0..3 * cost {
        crew.upstreams[0].budget().unwrap().deposit();
    }
    sleep(SECOND).await;
    let others = &crew.upstreams[1..];
    let paid = others.iter().filter(|other| other.budget().unwrap().withdraw()).count();
    assert_eq!(paid, 2, "by the deposits of the first one");
}

/// A provider that accepts half of what all think. Each member sees a third of the refusals, and
/// together they find the limit as one process does.
#[tokio::test(start_paused = true)]
async fn what_one_learns_is_used_by_all() {
    let crew = Crew::join(limited);
    let (began, half) = (Instant::now(), f64::from(LIMIT) / 2.0);
    let provider = Arc::new(Mutex::new((f64::from(BURST), Duration::ZERO)));
    let counts = Arc::new(Mutex::new((0_u32, 0_u32)));
    for upstream in crew.upstreams.iter().flat_map(|upstream| [upstream; 4]) {
        let (upstream, provider) = (Arc::clone(upstream), Arc::clone(&provider));
        let counts = Arc::clone(&counts);
        tokio::spawn(async move {
            loop {
                let admission = upstream.admit(Never).await.unwrap();
                let now = began.elapsed();
                let (level, at) = *provider.lock().unwrap();
                let level =
                    (level + now.saturating_sub(at).as_secs_f64() * half).min(f64::from(BURST));
                let is_accepted = level >= 1.0;
                *provider.lock().unwrap() = (if is_accepted { level - 1.0 } else { level }, now);
                sleep(SECOND / 20).await;
                if is_accepted {
                    counts.lock().unwrap().0 += 1;
                    admission.succeeded();
                } else {
                    counts.lock().unwrap().1 += 1;
                    admission.settle(&Verdict::throttled());
                }
            }
        });
    }
    sleep(60 * SECOND).await;
    let shares: Vec<_> = crew
        .upstreams
        .iter()
        .map(|it| f64::from(it.quota_rate(Dimension::Requests).unwrap().count()) / f64::from(LIMIT))
        .collect();
    assert!(shares.iter().all(|share| (0.4..0.55).contains(share)), "{shares:?}");
    let (accepted, refused) = std::mem::take(&mut *counts.lock().unwrap());
    assert!(refused <= 6 * LIMIT && accepted > 55 * LIMIT / 2, "{accepted} {refused}");
    sleep(60 * SECOND).await;
    let (accepted, refused) = *counts.lock().unwrap();
    assert!(f64::from(accepted) > 0.9 * 60.0 * half, "{accepted} {refused}");
    // The search between the last refused share and the present one.
    assert!(refused <= accepted / 25, "{accepted} {refused}");
    // One report is enough for all.
    let limits = Limits::new().with(Dimension::Requests, Limit::of(20, Some(SECOND)));
    let mut told = crew.upstreams[1].admit(Never).await.unwrap();
    told.learn(limits);
    told.succeeded();
    sleep(SECOND).await;
    let rate = |it: &Arc<Upstream>| it.quota_rate(Dimension::Requests).unwrap().count();
    assert!(crew.upstreams.iter().all(|upstream| rate(upstream) <= 20));
}
