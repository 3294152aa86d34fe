//! The gateways under test, each a process of its own.

use crate::client::{Client, Target};
use crate::sign::Signer;
use crate::{Setting, line};
use bench_harness::cluster::Cluster;
use bench_harness::process::{memory_mib, output};
use bench_harness::{Outcome, start};
use bytes::Bytes;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

const KEY: &str = "BENCHMARKBENCHMARK00";
const SECRET: &str = "secretsecretsecretsecretsecretsecret0000";
const START_MAX: Duration = Duration::from_secs(60);
/// The bucket of all requests, in a store that this run creates and removes.
pub const BUCKET: &str = "bench";

/// A running gateway with a bucket. Dropping it stops the gateway.
pub struct Server {
    pub name: &'static str,
    pub target: Rc<Target>,
    /// The options of a verb of `benthic s3` on our gateway; empty for the others.
    pub options: Vec<String>,
    child: Child,
    /// Commands that remove the gateway's data after it stopped.
    clean: Vec<Command>,
}

impl Server {
    pub async fn benthic(setting: &Setting, store: &str) -> Outcome<Server> {
        Server::benthic_with(setting, store, None, &[]).await
    }

    /// Our gateway with more options of `serve`.
    pub async fn benthic_serving(setting: &Setting, store: &str, serve: &[&str]) -> Outcome<Server> {
        Server::benthic_with(setting, store, None, serve).await
    }

    /// Our gateway with its data in a new erasure-coded pool.
    pub async fn benthic_erasure_coded(setting: &Setting, cluster: &Cluster) -> Outcome<Server> {
        let pool = format!("bench-s3-data-{}", setting.next_number());
        create_erasure_coded_pool(cluster, &pool)?;
        Server::benthic_with(setting, &cluster.store(), Some(&pool), &[]).await
    }

    async fn benthic_with(
        setting: &Setting,
        store: &str,
        data_pool: Option<&str>,
        serve: &[&str],
    ) -> Outcome<Server> {
        let pool = format!("bench-s3-{}", setting.next_number());
        let key = setting.dir.join("sealing.key").display().to_string();
        let mut options = ["--store", store, "--json", "s3", "--pool", &pool, "--sealing-key", &key].to_vec();
        options.extend(data_pool.iter().flat_map(|pool| ["--data-pool", *pool]));
        let options: Vec<String> = options.into_iter().map(str::to_owned).collect();
        let mut child = Command::new(&setting.benthic_s3)
            .args(&options)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(serve)
            .stdout(Stdio::piped())
            .stderr(log(setting, "benthic-s3")?)
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("the gateway has no output")?).read_line(&mut line)?;
        let reported: serde_json::Value = serde_json::from_str(&line)?;
        let text = |name: &str| {
            reported[name].as_str().ok_or_else(|| format!("the gateway reported no {name}: {line}"))
        };
        let host = text("url")?.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let remove = |pool: &str| {
            let mut remove = Command::new(setting.benthic_s3.with_file_name("benthic"));
            remove.args(["--store", store, "pool", "rm", pool, "--yes", pool]);
            remove
        };
        let clean = [pool.as_str()].into_iter().chain(data_pool).map(remove).collect();
        let keys = (text("access_key")?, text("secret_key")?);
        let mut server = Server::new("benthic", host, keys, child, clean).await?;
        server.options = options;
        Ok(server)
    }

    /// Encrypts all new objects of the bucket (SSE-S3).
    pub async fn enable_encryption(mut self) -> Outcome<Server> {
        let rule = "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm>\
            </ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>";
        self.client()
            .call("PUT", &format!("/{BUCKET}"), "encryption=", Bytes::from_static(rule.as_bytes()))
            .await?;
        self.name = "benthic, encrypted";
        Ok(self)
    }

    pub async fn radosgw(setting: &Setting, conf: &Path) -> Outcome<Server> {
        let host = free_address()?;
        let mut command = Command::new("radosgw");
        command.arg("-f").arg("--conf").arg(conf);
        command.args(["--name", "client.admin", "--debug-rgw", "0", "--log-file"]);
        command.arg(setting.dir.join("radosgw.log"));
        command.args(["--rgw-frontends", &format!("beast endpoint={host}")]);
        let log = log(setting, "radosgw")?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let admin = |arguments: &[&str]| {
            let mut command = Command::new("radosgw-admin");
            command.arg("--conf").arg(conf).args(["--name", "client.admin"]).args(arguments);
            command
        };
        let clean = vec![
            admin(&["bucket", "rm", "--bucket", BUCKET, "--purge-objects", "--bypass-gc"]),
            admin(&["gc", "process", "--include-all"]),
        ];
        let user = ["user", "create", "--uid", "bench", "--display-name", "bench"];
        let keys = ["--access-key", KEY, "--secret-key", SECRET];
        // The user may exist from the previous round.
        output(admin(&user).args(keys))
            .or_else(|_| output(&mut admin(&["user", "info", "--uid", "bench"])))?;
        Server::new("radosgw", host, (KEY, SECRET), child, clean).await
    }

    pub async fn versitygw(setting: &Setting, dir: &Path) -> Outcome<Server> {
        let host = free_address()?;
        fs::create_dir_all(dir)?;
        let mut command = Command::new(&setting.versitygw);
        command.args(["--port", &host, "--access", KEY, "--secret", SECRET]);
        command.args(["--keep-alive", "--quiet", "posix"]);
        let log = log(setting, "versitygw")?;
        let child = command.arg(dir).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let mut remove = Command::new("rm");
        remove.arg("-rf").arg(dir);
        Server::new("versitygw", host, (KEY, SECRET), child, vec![remove]).await
    }

    async fn new(
        name: &'static str,
        host: String,
        (access_key, secret_key): (&str, &str),
        child: Child,
        clean: Vec<Command>,
    ) -> Outcome<Server> {
        let signer = Signer::new(&host, access_key, secret_key)?;
        let target = Rc::new(Target { host, signer });
        let server = Server { name, target, options: Vec::new(), child, clean };
        let stopwatch = start();
        loop {
            let created = server.client().call("PUT", &format!("/{BUCKET}"), "", Bytes::new()).await;
            match created {
                Ok(_) => return Ok(server),
                Err(error) if stopwatch.elapsed() > START_MAX => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    pub fn client(&self) -> Client {
        Client::new(&self.target)
    }

    /// The gateway at the end of a slow line.
    pub async fn far(&self) -> Outcome<Rc<Target>> {
        let host = line::open(&self.target.host).await?;
        let signer = self.target.signer.at(&host);
        Ok(Rc::new(Target { host, signer }))
    }

    /// The gateway's memory in MiB: `VmRSS:` for now, `VmHWM:` for its maximum so far.
    pub fn memory_mib(&self, field: &str) -> Outcome<f64> {
        memory_mib(self.child.id(), field)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
        for command in &mut self.clean {
            if let Err(error) = output(command) {
                eprintln!("{error}");
            }
        }
    }
}

/// Creates an erasure-coded pool on three OSDs.
pub fn create_erasure_coded_pool(cluster: &Cluster, name: &str) -> Outcome {
    let profile = ["k=2", "m=1", "crush-failure-domain=osd"];
    cluster.ceph(&[&["osd", "erasure-code-profile", "set", "bench-s3"][..], &profile].concat())?;
    cluster.ceph(&["osd", "pool", "create", name, "32", "32", "erasure", "bench-s3"])?;
    Ok(())
}

pub fn path(key: &str) -> String {
    format!("/{BUCKET}/{key}")
}

fn free_address() -> Outcome<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

fn log(setting: &Setting, name: &str) -> Outcome<File> {
    let path: PathBuf = setting.dir.join(format!("{name}.log"));
    Ok(File::options().create(true).append(true).open(path)?)
}
