//! The calls of Flight SQL.

use super::credentials::Credentials;
use super::metadata::{self, SERVER, TABLE_TYPE, of_user};
use super::queries::{Messages, Queries};
use super::{known_types, status};
use crate::statement;
use crate::users::User;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any, Command,
    CommandGetCatalogs, CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys,
    CommandGetImportedKeys, CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables,
    CommandPreparedStatementQuery, CommandStatementQuery, CommandStatementUpdate,
    DoPutPreparedStatementResult, ProstMessageExt, SqlInfo, TicketStatementQuery,
};
use arrow_flight::{
    Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightDescriptor, FlightEndpoint,
    FlightInfo, HandshakeRequest, HandshakeResponse, IpcMessage, SchemaAsIpc, Ticket,
};
use benthic_core::Error;
use bytes::Bytes;
use datafusion::common::ScalarValue;
use futures::{StreamExt, TryStreamExt, stream};
use prost::Message;
use std::pin::Pin;
use std::sync::Arc;
use tonic::metadata::MetadataMap;
use tonic::{Extensions, Request, Response, Status, Streaming};

pub type Answer<T> = Result<Response<T>, Status>;
type DoGet = Answer<<Service as FlightService>::DoGetStream>;

/// The name of the action that cancels a query, in newer clients.
const CANCEL_FLIGHT_INFO: &str = "CancelFlightInfo";

/// The service.
pub struct Service {
    pub credentials: Credentials,
    pub queries: Queries,
}

impl Service {
    async fn user(&self, metadata: &MetadataMap, extensions: &Extensions) -> Result<Arc<User>, Status> {
        self.credentials.user(metadata, extensions).await
    }

    /// Answers a request for a ticket, with a ticket that repeats the request.
    async fn info(
        &self,
        request: Request<FlightDescriptor>,
        schema: &Schema,
        ticket: Bytes,
    ) -> Answer<FlightInfo> {
        self.user(request.metadata(), request.extensions()).await?;
        info(request.into_inner(), schema, ticket)
    }

    fn cancel_all(&self, user: &User, info: &FlightInfo) -> CancelStatus {
        let tickets = info.endpoint.iter().filter_map(|endpoint| endpoint.ticket.as_ref());
        // A query that the client polls has no ticket before its first rows.
        let descriptor = info.flight_descriptor.iter().map(|descriptor| &descriptor.cmd);
        let ids = tickets.map(|ticket| &ticket.ticket).chain(descriptor).filter_map(|command| {
            match Command::try_from(Any::decode(&**command).ok()?).ok()? {
                Command::TicketStatementQuery(ticket) => Some(ticket.statement_handle),
                Command::CommandPreparedStatementQuery(query) => Some(query.prepared_statement_handle),
                _ => None,
            }
        });
        match ids.filter(|id| self.queries.cancel(user, id)).count() {
            0 => CancelStatus::NotCancellable,
            _ => CancelStatus::Cancelled,
        }
    }
}

fn info(descriptor: FlightDescriptor, schema: &Schema, ticket: Bytes) -> Answer<FlightInfo> {
    let endpoint = FlightEndpoint::new().with_ticket(Ticket { ticket });
    let info = FlightInfo::new().try_with_schema(schema).map_err(|error| invalid(&error))?;
    Ok(Response::new(info.with_endpoint(endpoint).with_descriptor(descriptor).with_ordered(true)))
}

fn invalid(error: &impl std::fmt::Display) -> Status {
    Status::internal(error.to_string())
}

/// Sends one batch.
fn send(batch: Result<RecordBatch, FlightError>) -> DoGet {
    let batch = batch.map_err(Status::from)?;
    let encoder = FlightDataEncoderBuilder::new().with_schema(batch.schema());
    let rows = encoder.build(stream::iter([Ok(batch)])).map_err(Status::from);
    Ok(Response::new(rows.boxed()))
}

fn send_nothing(schema: SchemaRef) -> DoGet {
    send(Ok(RecordBatch::new_empty(schema)))
}

fn ipc(schema: &Schema) -> Result<Bytes, Status> {
    let message: IpcMessage = SchemaAsIpc::new(schema, &IpcWriteOptions::default())
        .try_into()
        .map_err(|error: arrow::error::ArrowError| invalid(&error))?;
    Ok(message.0)
}

fn table_types() -> SchemaRef {
    CommandGetTableTypes {}.into_builder().schema()
}

#[tonic::async_trait]
impl FlightSqlService for Service {
    type FlightService = Service;

    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Pin<Box<dyn stream::Stream<Item = Result<HandshakeResponse, Status>> + Send>>> {
        let token = self.credentials.token(request.metadata(), request.extensions()).await?;
        let header = format!("Bearer {token}").parse().map_err(|error| invalid(&error))?;
        let answer = HandshakeResponse { protocol_version: 0, payload: token.into() };
        let mut response = Response::new(stream::iter([Ok(answer)]).boxed());
        response.metadata_mut().insert("authorization", header);
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let user = self.user(request.metadata(), request.extensions()).await?;
        let planned = self.queries.plan(&user, &query.query).await.map_err(|error| status(&error))?;
        let statement_handle = self.queries.ticket(&query.query).map_err(|error| status(&error))?;
        let ticket = TicketStatementQuery { statement_handle };
        info(
            request.into_inner(),
            &known_types::schema(&planned.schema),
            ticket.as_any().encode_to_vec().into(),
        )
    }

    async fn do_get_statement(&self, ticket: TicketStatementQuery, request: Request<Ticket>) -> DoGet {
        let user = self.user(request.metadata(), request.extensions()).await?;
        let rows: Messages = self.queries.start_ticket(&user, &ticket.statement_handle).await?;
        Ok(Response::new(rows))
    }

    async fn do_put_statement_update(
        &self,
        update: CommandStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let user = self.user(request.metadata(), request.extensions()).await?;
        // The session's own error names the command to use instead.
        self.queries.plan(&user, &update.query).await.map_err(|error| status(&error))?;
        Err(Status::invalid_argument("the statement is a query; execute it as one"))
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let user = self.user(request.metadata(), request.extensions()).await?;
        let prepare = async {
            // JDBC's parameters have no numbers.
            let sql = statement::number_parameters(&query.query);
            let planned = self.queries.plan(&user, &sql).await?;
            Ok::<_, Error>((planned.parameters, planned.schema, self.queries.prepare(&user, &sql)?))
        };
        let (parameters, schema, handle) = prepare.await.map_err(|error| status(&error))?;
        let fields = parameters.into_iter().enumerate().map(|(number, data_type)| {
            Field::new(format!("${}", number + 1), data_type.unwrap_or(DataType::Utf8), true)
        });
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: handle,
            dataset_schema: ipc(&known_types::schema(&schema))?,
            parameter_schema: ipc(&known_types::schema(&Schema::new(fields.collect::<Vec<_>>())))?,
        })
    }

    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let user = self.user(request.metadata(), request.extensions()).await?;
        let messages = request.into_inner().map_err(|status| FlightError::Tonic(Box::new(status)));
        let mut batches = FlightRecordBatchStream::new_from_flight_data(messages);
        let mut values: Option<Vec<ScalarValue>> = None;
        while let Some(batch) = batches.try_next().await? {
            for row in 0..batch.num_rows() {
                if values.is_some() {
                    return Err(Status::unimplemented(
                        "bind one row of values; run the statement once for each",
                    ));
                }
                let row = batch.columns().iter().map(|column| ScalarValue::try_from_array(column, row));
                values = Some(row.collect::<Result<_, _>>().map_err(|error| invalid(&error))?);
            }
        }
        let handle = query.prepared_statement_handle;
        self.queries.bind(&user, &handle, values.unwrap_or_default()).map_err(|error| status(&error))?;
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(handle) })
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let user = self.user(request.metadata(), request.extensions()).await?;
        let plan = async {
            let sql = self.queries.sql(&user, &query.prepared_statement_handle)?;
            self.queries.plan(&user, &sql).await
        };
        let planned = plan.await.map_err(|error| status(&error))?;
        info(
            request.into_inner(),
            &known_types::schema(&planned.schema),
            query.as_any().encode_to_vec().into(),
        )
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<Ticket>,
    ) -> DoGet {
        let user = self.user(request.metadata(), request.extensions()).await?;
        let rows = self.queries.start_prepared(&user, &query.prepared_statement_handle).await?;
        Ok(Response::new(rows))
    }

    async fn do_action_close_prepared_statement(
        &self,
        query: ActionClosePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<(), Status> {
        let user = self.user(request.metadata(), request.extensions()).await?;
        self.queries.close(&user, &query.prepared_statement_handle);
        Ok(())
    }

    async fn do_action_cancel_query(
        &self,
        query: ActionCancelQueryRequest,
        request: Request<Action>,
    ) -> Result<ActionCancelQueryResult, Status> {
        let user = self.user(request.metadata(), request.extensions()).await?;
        let info =
            FlightInfo::decode(query.info).map_err(|_| Status::invalid_argument("the query is invalid"))?;
        // The two answers have the same numbers.
        Ok(ActionCancelQueryResult { result: self.cancel_all(&user, &info).into() })
    }

    async fn do_action_fallback(
        &self,
        request: Request<Action>,
    ) -> Answer<<Service as FlightService>::DoActionStream> {
        let user = self.user(request.metadata(), request.extensions()).await?;
        let action = request.into_inner();
        if action.r#type != CANCEL_FLIGHT_INFO {
            return Err(Status::unimplemented("the server does not know this action"));
        }
        let query = CancelFlightInfoRequest::decode(action.body);
        let query = query.map_err(|_| Status::invalid_argument("the query is invalid"))?;
        let canceled = query.info.map(|info| self.cancel_all(&user, &info));
        let status = canceled.unwrap_or(CancelStatus::NotCancellable);
        let body = CancelFlightInfoResult { status: status.into() }.encode_to_vec().into();
        Ok(Response::new(stream::iter([Ok(arrow_flight::Result { body })]).boxed()))
    }

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let ticket = query.as_any().encode_to_vec().into();
        self.info(request, &query.into_builder().schema(), ticket).await
    }

    async fn do_get_catalogs(&self, query: CommandGetCatalogs, request: Request<Ticket>) -> DoGet {
        self.user(request.metadata(), request.extensions()).await?;
        send(metadata::catalogs(query))
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let ticket = query.as_any().encode_to_vec().into();
        self.info(request, &query.into_builder().schema(), ticket).await
    }

    async fn do_get_schemas(&self, query: CommandGetDbSchemas, request: Request<Ticket>) -> DoGet {
        let user = self.user(request.metadata(), request.extensions()).await?;
        send(metadata::schemas(query, &of_user(&user).await?))
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let ticket = query.as_any().encode_to_vec().into();
        self.info(request, &query.into_builder().schema(), ticket).await
    }

    async fn do_get_tables(&self, query: CommandGetTables, request: Request<Ticket>) -> DoGet {
        let user = self.user(request.metadata(), request.extensions()).await?;
        send(metadata::tables(query, &of_user(&user).await?))
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.info(request, &table_types(), query.as_any().encode_to_vec().into()).await
    }

    async fn do_get_table_types(&self, query: CommandGetTableTypes, request: Request<Ticket>) -> DoGet {
        self.user(request.metadata(), request.extensions()).await?;
        let mut builder = query.into_builder();
        builder.append(TABLE_TYPE);
        send(builder.build())
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let server = SERVER.as_ref().map_err(invalid)?;
        let ticket = query.as_any().encode_to_vec().into();
        self.info(request, &query.into_builder(server).schema(), ticket).await
    }

    async fn do_get_sql_info(&self, query: CommandGetSqlInfo, request: Request<Ticket>) -> DoGet {
        self.user(request.metadata(), request.extensions()).await?;
        let server = SERVER.as_ref().map_err(invalid)?;
        send(query.into_builder(server).build())
    }

    async fn get_flight_info_primary_keys(
        &self,
        query: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.info(request, &metadata::primary_keys(), query.as_any().encode_to_vec().into()).await
    }

    async fn do_get_primary_keys(&self, _query: CommandGetPrimaryKeys, request: Request<Ticket>) -> DoGet {
        self.user(request.metadata(), request.extensions()).await?;
        send_nothing(metadata::primary_keys())
    }

    async fn get_flight_info_exported_keys(
        &self,
        query: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.info(request, &metadata::foreign_keys(), query.as_any().encode_to_vec().into()).await
    }

    async fn do_get_exported_keys(&self, _query: CommandGetExportedKeys, request: Request<Ticket>) -> DoGet {
        self.user(request.metadata(), request.extensions()).await?;
        send_nothing(metadata::foreign_keys())
    }

    async fn get_flight_info_imported_keys(
        &self,
        query: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.info(request, &metadata::foreign_keys(), query.as_any().encode_to_vec().into()).await
    }

    async fn do_get_imported_keys(&self, _query: CommandGetImportedKeys, request: Request<Ticket>) -> DoGet {
        self.user(request.metadata(), request.extensions()).await?;
        send_nothing(metadata::foreign_keys())
    }

    async fn get_flight_info_cross_reference(
        &self,
        query: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.info(request, &metadata::foreign_keys(), query.as_any().encode_to_vec().into()).await
    }

    async fn do_get_cross_reference(
        &self,
        _query: CommandGetCrossReference,
        request: Request<Ticket>,
    ) -> DoGet {
        self.user(request.metadata(), request.extensions()).await?;
        send_nothing(metadata::foreign_keys())
    }

    async fn register_sql_info(&self, _id: i32, _info: &SqlInfo) {}
}
