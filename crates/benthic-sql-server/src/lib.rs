//! Serves SQL over the tables of a store, to clients of Postgres and of Arrow Flight SQL.
//!
//! Both protocols run queries through [`benthic_sql::session::SqlSession`], as `benthic sql` does.
//! [`auth`] checks the access keys of the S3 gateway, and which pools an account may read.
//! [`users`] holds the state that the connections of one user share: the session, the memory, and
//! the number of running queries. [`queries`] runs queries, and [`statement`] limits their text.
//! [`postgres`] and [`flight`] hold the protocols. [`catalog`] answers the questions about tables
//! that Postgres clients ask in SQL.
//!
//! The server only reads. It opens no local file.

mod catalog;
pub mod flight;
pub mod postgres;
mod queries;
mod statement;
pub mod users;
mod visible_store;

/// The name of the one database or catalog, as clients see it. Its schemas are the pools.
pub const DATABASE: &str = "benthic";
