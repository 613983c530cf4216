//! A tenant attacks the operator, while another object's latency is measured.
//!
//! Each attack runs on a control plane of its own, with the operator's Role, the admission policy, and a tenant who has the
//! ClusterRoles `admin` and `orchestr-editor` in its own namespaces: see [`orchestr_testbed::attacks`]. An operator that
//! exceeds the memory limit is killed and started again, as a kubelet would do.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use orchestr_testbed::{
    Answer, ControlPlane, Kubelet, Options,
    attacks::{Attack, Latencies, PreparedAttack, Requests, Size, Victim},
    pods::{Shape, filler},
};

use crate::{Flags, Outcome, figures::Figures, process::Process, trouble};

/// The pods of the rest of the cluster.
const PODS: usize = 2_000;
/// The limit for a first status, and for a change to be shown.
const LIMIT: Duration = Duration::from_secs(30);
const SAMPLING: Duration = Duration::from_millis(50);
/// What another object's status may take, in ms: at worst during one attack, and in the median and at worst during all.
const LATENCY_BUDGET: f64 = 2_000.0;
const LATENCY_BUDGETS_OF_ALL: [f64; 2] = [1_000.0, 5_000.0];
/// The operator's peak memory, in MiB.
const MEMORY_BUDGET: f64 = 128.0;

pub async fn run(flags: &Flags) -> Outcome {
    let mut figures = Figures::new("attacks")?;
    let alone = Attack::ALL.map(|attack| (attack.name(), vec![attack]));
    let mut rows = vec![("none", Vec::new())];
    rows.extend(alone);
    rows.push(("all", Attack::ALL.to_vec()));
    rows.retain(|(name, _)| flags.only.is_empty() || flags.only.iter().any(|only| only == name));
    let mut table = Vec::new();
    for (number, (name, attacks)) in rows.into_iter().enumerate() {
        println!("\n{name}");
        let result = measure(flags, &attacks).await?;
        let mut add = |what: &str, value: f64, unit: &str, budget| {
            figures.add_budgeted("attack", number, &format!("{name}: {what}"), value, unit, budget)
        };
        let milliseconds = |share| result.latencies.percentile(share).as_secs_f64() * 1e3;
        let [median, worst] = match name {
            "all" => LATENCY_BUDGETS_OF_ALL.map(Some),
            _ => [None, Some(LATENCY_BUDGET)],
        };
        add("first status", result.first_status.as_secs_f64() * 1e3, "ms", None)?;
        add("latency of another object, median", milliseconds(0.5), "ms", median)?;
        add("latency of another object, worst", milliseconds(1.0), "ms", worst)?;
        let watched = result.latencies.percentile_of_watched(1.0).as_secs_f64() * 1e3;
        add("latency of a watch of that object, worst", watched, "ms", None)?;
        add("changes measured", result.latencies.statuses.len() as f64, "", None)?;
        let bare = result.latencies.percentile_of_pods(1.0).as_secs_f64() * 1e3;
        add("latency of a bare watch of its pod, worst", bare, "ms", None)?;
        let apply = result.latencies.percentile_of_applies(1.0).as_secs_f64() * 1e3;
        add("a small server-side apply, worst", apply, "ms", None)?;
        add("changes not shown within 30 s", result.latencies.missed as f64, "", Some(0.0))?;
        add("latency after a restart", result.restarted.as_secs_f64() * 1e3, "ms", None)?;
        add("peak resident memory", result.peak_mib, "MiB", Some(MEMORY_BUDGET))?;
        add("restarts", result.restarts as f64, "", Some(0.0))?;
        add("processor", result.busy * 100.0, "%", None)?;
        table.push(format!(
            "| {name} | {} | {} | {:.0} / {:.0} ms | {} | {watched:.0} ms | {bare:.0} ms | {apply:.0} ms | {} | {} of {} | {:.0} ms | {:.0} MiB | {} | {:.0} % |",
            result.requests.accepted,
            result.requests.refused,
            milliseconds(0.5),
            milliseconds(1.0),
            result.latencies.statuses.len(),
            result.latencies.missed,
            result.latencies.logs,
            result.latencies.failures,
            result.restarted.as_secs_f64() * 1e3,
            result.peak_mib,
            result.restarts,
            result.busy * 100.0,
        ));
    }
    println!(
        "\n| attack | requests | refused | latency of another object, median / worst | changes | a watch of it, worst | a bare watch, worst | a small apply, \
         worst | not shown within 30 s | with its log | after a restart | peak memory | restarts | processor |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    );
    table.iter().for_each(|row| println!("{row}"));
    Ok(())
}

struct Measured {
    first_status: Duration,
    latencies: Latencies,
    /// From a change just after the next start to the status that shows it.
    restarted: Duration,
    requests: Requests,
    peak_mib: f64,
    restarts: u32,
    /// The share of one processor that the operator used.
    busy: f64,
}

async fn measure(flags: &Flags, attacks: &[Attack]) -> Outcome<Measured> {
    let shape = Shape { nodes: 10, ..Shape::default() };
    let plane = ControlPlane::start(Options::default()).await?;
    plane.load_at_rest((0..PODS).map(|index| filler(index, &shape))).await?;
    plane.install(&orchestr::api::crd::crd()).await?;
    for folder in ["deploy", "deploy/tenancy"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let output = plane.kubectl(&["apply", "-k", &path.to_string_lossy()], None).await?;
        if !output.status.success() {
            return Err(trouble(output.stderr));
        }
    }
    let kubeconfig = plane.service_account("orchestr-system", "orchestr").await?.kubeconfig().to_owned();
    let kubelet = Kubelet::start(&plane, "node-0").await?;
    kubelet.script_default(Answer::text("the same line\n".repeat(80)));
    let mut victim = Victim::new(&plane, &kubelet).await?;
    let size = if flags.quick { Size::SHORT } else { Size::FULL };
    let prepare = attacks.iter().map(|&attack| PreparedAttack::new(attack, size, &plane, &kubelet));
    let prepared = try_join_all(prepare).await?;
    for attack in &prepared {
        attack.until_confined(LIMIT).await?;
    }

    let mut operator = Supervised::start(flags, &kubeconfig)?;
    let attack = async {
        let first_status = match victim.until_watched(LIMIT).await {
            Ok(time) => time,
            Err(_) => LIMIT,
        };
        let end = Instant::now() + flags.window;
        let attacking = try_join_all(prepared.iter().map(|attack| attack.go_on(end)));
        let (latencies, _) = tokio::try_join!(victim.measure(end, LIMIT), attacking)?;
        Outcome::Ok((first_status, latencies))
    };
    let (first_status, latencies) = operator.supervise(attack).await??;
    // The operator reads everything that the attack has left behind.
    operator.restart()?;
    let restarted = async { Outcome::Ok(victim.measure(Instant::now(), LIMIT).await?) };
    let restarted = operator.supervise(restarted).await??.percentile(1.0);
    let requests = prepared.iter().map(PreparedAttack::requests).fold(Requests::default(), |sum, own| Requests {
        accepted: sum.accepted + own.accepted,
        refused: sum.refused + own.refused,
    });
    let (peak_mib, restarts, busy) = operator.finish()?;
    Ok(Measured { first_status, latencies, restarted, requests, peak_mib, restarts, busy })
}

/// An operator that is started again whenever it ends or exceeds its memory limit.
struct Supervised<'a> {
    flags: &'a Flags,
    kubeconfig: &'a Path,
    process: Process,
    began: Instant,
    peak_mib: f64,
    restarts: u32,
    /// The processor time of those that have ended.
    cpu: Duration,
    last_cpu: Duration,
}

impl<'a> Supervised<'a> {
    fn start(flags: &'a Flags, kubeconfig: &'a Path) -> Outcome<Self> {
        let process = Process::start(&flags.binary, kubeconfig, &[], flags.log.as_deref())?;
        let (began, cpu, last_cpu) = (Instant::now(), Duration::ZERO, Duration::ZERO);
        Ok(Self { flags, kubeconfig, process, began, peak_mib: 0.0, restarts: 0, cpu, last_cpu })
    }

    /// Returns the result of `task`, during which the operator is started again whenever it ends.
    async fn supervise<T>(&mut self, task: impl Future<Output = T>) -> Outcome<T> {
        let mut task = std::pin::pin!(task);
        let mut ticks = tokio::time::interval(SAMPLING);
        loop {
            tokio::select! {
                result = &mut task => return Ok(result),
                _ = ticks.tick() => {}
            }
            // A process that has ended has no memory.
            let resident = self.process.resident_mib();
            self.sample();
            if !resident.is_ok_and(|mib| mib <= f64::from(self.flags.memory_limit)) {
                self.restarts += 1;
                self.start_again()?;
            }
        }
    }

    fn sample(&mut self) {
        self.peak_mib = self.peak_mib.max(self.process.peak_mib().unwrap_or_default());
        self.last_cpu = self.process.cpu().unwrap_or(self.last_cpu);
    }

    fn start_again(&mut self) -> Outcome {
        self.cpu += std::mem::take(&mut self.last_cpu);
        self.process = Process::start(&self.flags.binary, self.kubeconfig, &[], self.flags.log.as_deref())?;
        Ok(())
    }

    /// Ends the operator as a node that fails does, which does not count as a restart, and starts it again.
    fn restart(&mut self) -> Outcome {
        self.sample();
        self.start_again()
    }

    fn finish(self) -> Outcome<(f64, u32, f64)> {
        let cpu = self.cpu + self.process.cpu().unwrap_or(self.last_cpu);
        let busy = cpu.as_secs_f64() / self.began.elapsed().as_secs_f64();
        Ok((self.peak_mib.max(self.process.peak_mib().unwrap_or_default()), self.restarts, busy))
    }
}
