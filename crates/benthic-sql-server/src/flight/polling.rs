//! Answers `PollFlightInfo`, with which a client starts a query and follows its progress.
//!
//! [`FlightSqlService`](arrow_flight::sql::server::FlightSqlService) brings an implementation of
//! [`FlightService`] that refuses this call. So this service answers it, and delegates the others.

use super::service::{Answer, Service};
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{Any, Command};
use arrow_flight::{
    Action, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, PollInfo,
    SchemaResult, Ticket,
};
use prost::Message;
use tonic::{Request, Response, Status, Streaming};

/// The service with `PollFlightInfo`.
pub struct Polling(pub Service);

#[tonic::async_trait]
impl FlightService for Polling {
    type HandshakeStream = <Service as FlightService>::HandshakeStream;
    type ListFlightsStream = <Service as FlightService>::ListFlightsStream;
    type DoGetStream = <Service as FlightService>::DoGetStream;
    type DoPutStream = <Service as FlightService>::DoPutStream;
    type DoExchangeStream = <Service as FlightService>::DoExchangeStream;
    type DoActionStream = <Service as FlightService>::DoActionStream;
    type ListActionsStream = <Service as FlightService>::ListActionsStream;

    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<PollInfo> {
        let Service { credentials, queries } = &self.0;
        let user = credentials.user(request.metadata(), request.extensions()).await?;
        let command = Any::decode(&*request.get_ref().cmd).ok().and_then(|any| Command::try_from(any).ok());
        let poll = match command.ok_or_else(|| Status::invalid_argument("the query is invalid"))? {
            Command::CommandStatementQuery(query) => {
                queries.poll_statement(&user, &query.query, Vec::new()).await?
            }
            Command::CommandPreparedStatementQuery(query) => {
                queries.poll_prepared(&user, &query.prepared_statement_handle).await?
            }
            Command::TicketStatementQuery(ticket) => queries.poll(&user, &ticket.statement_handle).await?,
            // The rows of other requests need no computation.
            _ => PollInfo::new().with_info(self.0.get_flight_info(request).await?.into_inner()),
        };
        Ok(Response::new(poll))
    }

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Self::HandshakeStream> {
        self.0.handshake(request).await
    }

    async fn list_flights(&self, request: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        self.0.list_flights(request).await
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        self.0.get_flight_info(request).await
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        self.0.get_schema(request).await
    }

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        self.0.do_get(request).await
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        self.0.do_put(request).await
    }

    async fn do_exchange(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoExchangeStream> {
        self.0.do_exchange(request).await
    }

    async fn do_action(&self, request: Request<Action>) -> Answer<Self::DoActionStream> {
        self.0.do_action(request).await
    }

    async fn list_actions(&self, request: Request<Empty>) -> Answer<Self::ListActionsStream> {
        self.0.list_actions(request).await
    }
}
