// Serves a PostgreSQL in WebAssembly that has pgvector, until standard input ends, and prints its port. It has one session: all
// connections share its settings and prepared statements.
import { PGlite } from '@electric-sql/pglite'
import { vector } from '@electric-sql/pglite-pgvector'
import { PGLiteSocketServer } from '@electric-sql/pglite-socket'

const db = await PGlite.create({ extensions: { vector } })
const server = new PGLiteSocketServer({ db, port: 0, host: '127.0.0.1', maxConnections: 10 })
server.addEventListener('listening', (event) => console.log(event.detail.port))
await server.start()
process.stdin.on('end', () => process.exit()).resume()
