//! Applies a plan and undoes it. Each step first checks the cluster and skips work that is already
//! done, so that an interrupted run can be repeated.

use super::crush::Rule;
use super::plan::{Plan, compile, new_map};
use super::preview::Preview;
use super::rule::step_texts;
use super::snapshot::{Snapshot, read_pgs};
use super::text;
use crate::cluster_client::ClusterClient;
use crate::cluster_state::{Pool, has_duplicates};
use benthic_core::{Error, ErrorKind, Result};
use serde_json::json;

/// Progress of a pool's placement groups on the way to the OSDs that CRUSH chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Movement {
    pub pgs: usize,
    /// Placement groups that are on their OSDs, active and clean.
    pub arrived: usize,
    /// Placement groups that take no I/O at present.
    pub inactive: usize,
}

impl Movement {
    pub fn is_over(&self) -> bool {
        self.arrived == self.pgs
    }
}

impl Plan {
    /// Starts the data movement: limits backfills, adds the rule and the root to the CRUSH map, and
    /// sets the pool's rule and number of replicas. A repeated call changes nothing more.
    /// [`movement`] reports the progress; call [`finish`](Plan::finish) when it is complete.
    ///
    /// # Errors
    /// `Conflict` if the cluster, the pool or the CRUSH map differs from the plan's; `Unavailable`
    /// if a placement group of the pool is not active and clean; `PermissionDenied`;
    /// `OutcomeUnknown` if a step was not answered: repeat the call.
    pub async fn begin(&self, client: &dyn ClusterClient, max_backfills: u32) -> Result<()> {
        let snapshot = Snapshot::read(client).await?;
        let pool = self.check(&snapshot)?;
        let rule = rule_of(&snapshot, pool);
        let (has_rule, has_size) = (rule == self.new_rule, pool.size == self.new_replicas());
        let min_size = self.resize.as_ref().map_or(0, |resize| resize.min_size);
        if has_rule && has_size {
            return self.raise_min_size(client, pool, min_size).await;
        }
        if rule != self.old_rule && !has_rule {
            return Err(self.change_error("the pool's rule has changed", rule));
        }
        // Whether an interrupted run has already changed the first of the two settings, rule and
        // replicas.
        let grows = self.new_replicas() > self.replicas;
        let is_begun = self.resize.is_some() && if grows { rule != self.old_rule } else { has_size };
        // If this plan has added the rule, the version of the map has grown by one.
        let is_there =
            snapshot.crush.rule_named(&self.new_rule).is_some_and(|rule| step_texts(rule) == self.steps);
        let expected = self.crush_version + u64::from(self.adds_rule && is_there);
        let is_same = snapshot.map.crush_version == expected && (is_there || self.adds_rule);
        if !(is_same || is_begun && has_rule) {
            let found = snapshot.map.crush_version;
            if is_begun {
                let message = "the CRUSH map has changed since half of the plan was applied; run `benthic placement undo PLAN`, \
                    then make another plan";
                return Err(Error::conflict(message).with("pool", &self.pool).with("found", found));
            }
            return Err(self.change_error("the CRUSH map has changed", found));
        }
        if !is_begun {
            self.check_untouched(pool)?;
            check_clean(&snapshot, pool)?;
        }
        if !is_there {
            let mut preview = Preview::read(client).await?;
            let new = new_map(&snapshot, &mut preview, &self.addition())?;
            set_map(client, new, snapshot.map.crush_version).await?;
        }
        set_backfills(client, Some(&max_backfills.to_string())).await?;
        let changed = self.change(client, pool, &self.new_rule, self.new_replicas(), min_size).await;
        changed
            .map_err(|error| error.with("next", "repeat it, or go back with `benthic placement undo PLAN`"))
    }

    /// Starts moving the data back: restores the pool's rule and number of replicas. [`movement`]
    /// reports the progress; call [`finish_undo`](Plan::finish_undo) when it is complete.
    ///
    /// # Errors
    /// As [`begin`](Plan::begin); `NotFound` if the old rule no longer exists.
    pub async fn begin_undo(&self, client: &dyn ClusterClient, max_backfills: u32) -> Result<()> {
        let snapshot = Snapshot::read(client).await?;
        let pool = self.pool(&snapshot)?;
        let rule = rule_of(&snapshot, pool);
        if rule == self.old_rule && pool.size == self.replicas {
            return Ok(());
        }
        if rule != self.new_rule && rule != self.old_rule {
            return Err(self.change_error("the pool's rule was replaced by a third one", rule));
        }
        if snapshot.crush.rule_named(&self.old_rule).is_none() {
            let message =
                "the pool's old rule no longer exists; `ceph osd pool set POOL crush_rule RULE` sets another";
            return Err(Error::not_found(message).with("rule", &self.old_rule));
        }
        set_backfills(client, Some(&max_backfills.to_string())).await?;
        // Keep a higher `min_size` that an operator has set meanwhile.
        let min_size = self.resize.as_ref().map_or(0, |resize| resize.min_size.max(pool.min_size));
        self.change(client, pool, &self.old_rule, self.replicas, min_size.min(self.replicas)).await
    }

    /// Completes [`begin`](Plan::begin): restores the limit of backfills.
    ///
    /// # Errors
    /// As [`ClusterClient::tell_monitors`].
    pub async fn finish(&self, client: &dyn ClusterClient) -> Result<()> {
        set_backfills(client, self.max_backfills.as_deref()).await
    }

    /// Completes [`begin_undo`](Plan::begin_undo). It restores the pool's `min_size` unless it is
    /// higher now, removes the plan's additions to the CRUSH map unless another pool or rule uses
    /// them, and restores the limit of backfills.
    ///
    /// # Errors
    /// As [`ClusterClient::tell_monitors`]; `Conflict` if the CRUSH map changed at the same time:
    /// repeat the call.
    pub async fn finish_undo(&self, client: &dyn ClusterClient) -> Result<()> {
        let snapshot = Snapshot::read(client).await?;
        // Raise `min_size` only now that the copies exist. Before, I/O would stop.
        if let Some(resize) = &self.resize {
            self.raise_min_size(client, self.pool(&snapshot)?, resize.old_min_size).await?;
        }
        let used = |name: &str| snapshot.map.pools.iter().any(|pool| rule_of(&snapshot, pool) == name);
        let is_there = snapshot.crush.rule_named(&self.new_rule).is_some();
        if self.adds_rule && is_there && !used(&self.new_rule) {
            let takes_root =
                |rule: &&Rule| snapshot.crush.takes(rule).any(|(bucket, _)| bucket.name == self.other_root);
            let others =
                snapshot.crush.rules.iter().filter(takes_root).any(|rule| rule.rule_name != self.new_rule);
            let root = (self.adds_root_of.is_some() && !others).then_some(self.other_root.as_str());
            let mut preview = Preview::read(client).await?;
            let exact = text::with_exact_weights(&preview.text()?, &snapshot.crush);
            let new = text::remove(&exact, &self.new_rule, root);
            let new = compile(&snapshot, &mut preview, &new, &[&self.new_rule, root.unwrap_or_default()])?;
            set_map(client, new, snapshot.map.crush_version).await?;
        }
        self.finish(client).await
    }

    /// Sets the pool's rule and number of replicas, one right after the other, so that data move
    /// once.
    ///
    /// To add replicas, set the rule first: only the new rule finds OSDs for them. To remove
    /// replicas, set the number first: the new rule finds OSDs only for the smaller number. In the
    /// other order, placement groups would be undersized for lack of OSDs.
    async fn change(
        &self,
        client: &dyn ClusterClient,
        pool: &Pool,
        rule: &str,
        replicas: usize,
        min_size: usize,
    ) -> Result<()> {
        if replicas < pool.size {
            self.set_replicas(client, replicas, min_size).await?;
        }
        set(client, &self.pool, "crush_rule", rule).await?;
        if replicas > pool.size {
            self.set_replicas(client, replicas, min_size).await?;
        } else if replicas == pool.size {
            // An earlier attempt may have failed after it set the number of replicas.
            self.raise_min_size(client, pool, min_size).await?;
        }
        Ok(())
    }

    /// Sets the number of replicas. The monitors then set `min_size` from a configuration option,
    /// so this restores it at once. If `min_size` must exceed the number of existing copies,
    /// [`finish_undo`](Plan::finish_undo) raises it once they exist.
    async fn set_replicas(&self, client: &dyn ClusterClient, replicas: usize, min_size: usize) -> Result<()> {
        set(client, &self.pool, "size", replicas).await?;
        set(client, &self.pool, "min_size", min_size).await
    }

    /// Completes a run that was interrupted between the number of replicas and `min_size`. Keeps a
    /// higher `min_size`.
    async fn raise_min_size(&self, client: &dyn ClusterClient, pool: &Pool, min_size: usize) -> Result<()> {
        if pool.min_size < min_size { set(client, &self.pool, "min_size", min_size).await } else { Ok(()) }
    }

    /// Checks that the settings that the plan changes still have the values from when it was made.
    fn check_untouched(&self, pool: &Pool) -> Result<()> {
        match &self.resize {
            Some(_) if pool.size != self.replicas => {
                Err(self.change_error("the pool's number of replicas has changed", pool.size))
            }
            Some(resize) if pool.min_size != resize.old_min_size => {
                Err(self.change_error("the pool's min_size has changed", pool.min_size))
            }
            _ => Ok(()),
        }
    }

    /// The pool. Checks that cluster, pool and number of placement groups are those of the plan.
    pub(super) fn check<'a>(&self, snapshot: &'a Snapshot) -> Result<&'a Pool> {
        let pool = self.pool(snapshot)?;
        if pool.pg_num != self.pgs {
            return Err(self.change_error("the pool's number of placement groups has changed", pool.pg_num));
        }
        Ok(pool)
    }

    /// The pool. Checks that cluster and pool are those of the plan. The number of placement groups
    /// does not matter for an undo.
    fn pool<'a>(&self, snapshot: &'a Snapshot) -> Result<&'a Pool> {
        if snapshot.map.fsid != self.fsid {
            return Err(self.change_error("the cluster's fsid has changed", &snapshot.map.fsid));
        }
        let pool = snapshot.map.pools.iter().find(|pool| pool.id == self.pool_id);
        match pool {
            Some(pool) if pool.name != self.pool => {
                Err(self.change_error("the pool's name has changed", &pool.name))
            }
            Some(pool) if ![self.replicas, self.new_replicas()].contains(&pool.size) => {
                Err(self.change_error("the pool's number of replicas has changed", pool.size))
            }
            Some(pool) => Ok(pool),
            None => Err(self.change_error("the pool was removed", self.pool_id)),
        }
    }

    fn change_error(&self, change: &str, found: impl std::fmt::Display) -> Error {
        let message = format!(
            "{change} since the plan was made; nothing was changed; `benthic placement plan` makes another plan"
        );
        Error::conflict(message).with("pool", &self.pool).with("found", found)
    }
}

/// Reports the progress of a pool's placement groups on the way to the OSDs that CRUSH chooses now.
///
/// # Errors
/// As [`Preview::read`] and [`ClusterClient::ask_manager`].
pub async fn movement(client: &dyn ClusterClient, pool_id: i64) -> Result<Movement> {
    let mappings = Preview::read(client).await?.mappings(None)?;
    let pgs = read_pgs(client).await?;
    let of_pool = || pgs.iter().filter(|pg| pg.pool() == Some(pool_id));
    let arrived = of_pool().filter(|pg| {
        let there = Some(&pg.acting) == mappings.get(&pg.pgid) && pg.up == pg.acting;
        there && !has_duplicates(&pg.acting) && pg.state.starts_with("active+clean")
    });
    Ok(Movement {
        pgs: of_pool().count(),
        arrived: arrived.count(),
        inactive: of_pool().filter(|pg| !pg.state.contains("active")).count(),
    })
}

fn rule_of<'a>(snapshot: &'a Snapshot, pool: &Pool) -> &'a str {
    snapshot.crush.rule(pool.crush_rule).map_or("", |rule| rule.rule_name.as_str())
}

fn check_clean(snapshot: &Snapshot, pool: &Pool) -> Result<()> {
    let unclean = snapshot.pgs_of(pool).find(|pg| !pg.state.starts_with("active+clean"));
    let Some(pg) = unclean else { return Ok(()) };
    let message = "the pool has placement groups that are not active and clean; `ceph pg dump_stuck` lists them; wait until \
        `ceph -s` shows none";
    Err(Error::unavailable(message).with("pg", &pg.pgid).with("state", &pg.state))
}

/// Replaces the CRUSH map if it still has this version.
async fn set_map(client: &dyn ClusterClient, map: Vec<u8>, version: u64) -> Result<()> {
    let command = json!({ "prefix": "osd setcrushmap", "prior_version": version });
    client.tell_monitors(command, map).await.map_err(|error| {
        if error.kind() != ErrorKind::Conflict {
            return error;
        }
        let message = "the CRUSH map changed at the same time, and nothing was done; repeat the command";
        Error::conflict(message).with_source(error)
    })
}

async fn set(client: &dyn ClusterClient, pool: &str, what: &str, to: impl std::fmt::Display) -> Result<()> {
    let command = json!({ "prefix": "osd pool set", "pool": pool, "var": what, "val": to.to_string() });
    client.tell_monitors(command, Vec::new()).await
}

/// Sets how many backfills each OSD runs at once; `None` restores the OSDs' default.
async fn set_backfills(client: &dyn ClusterClient, value: Option<&str>) -> Result<()> {
    let command = match value {
        Some(value) => {
            json!({ "prefix": "config set", "who": "osd", "name": "osd_max_backfills", "value": value })
        }
        None => json!({ "prefix": "config rm", "who": "osd", "name": "osd_max_backfills" }),
    };
    client.tell_monitors(command, Vec::new()).await
}
