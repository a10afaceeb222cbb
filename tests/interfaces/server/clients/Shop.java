import java.sql.*;
import java.util.*;

/** Reads a shop by JDBC; prints a line for each thing that it finds. */
public class Shop {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("user", arguments[1]);
        properties.setProperty("password", arguments[2]);
        try (Connection connection = DriverManager.getConnection(arguments[0], properties)) {
            DatabaseMetaData about = connection.getMetaData();
            System.out.println(about.getDatabaseProductName());
            for (ResultSet tables = about.getTables(null, "public", "%", new String[] {"TABLE", "VIEW"}); tables.next(); )
                System.out.println("table " + tables.getString("TABLE_NAME") + " " + tables.getString("TABLE_TYPE"));
            for (ResultSet columns = about.getColumns(null, "public", "customers", "%"); columns.next(); )
                System.out.println("column " + columns.getString("COLUMN_NAME") + " " + columns.getString("TYPE_NAME"));
            System.out.println("keys " + about.getPrimaryKeys(null, "public", "sales").next() + about.getImportedKeys(null, "public", "sales").next() + about.getIndexInfo(null, "public", "sales", false, false).next());
            System.out.println("more " + about.getSchemas().next() + about.getCatalogs().next() + about.getTypeInfo().next() + about.getTableTypes().next() + about.getProcedures(null, "public", "%").next() + about.getFunctions(null, "public", "%").next() + about.getSQLKeywords().isEmpty() + about.getUDTs(null, null, "%", null).next() + about.getTablePrivileges(null, "public", "sales").next());
            connection.setAutoCommit(false);
            try (PreparedStatement some = connection.prepareStatement("SELECT id, price, day, sold, good FROM public.sales WHERE id < ? ORDER BY id")) {
                some.setFetchSize(7);
                some.setInt(1, 40);
                int count = 0;
                String last = "";
                for (ResultSet rows = some.executeQuery(); rows.next(); count++)
                    last = rows.getInt(1) + " " + rows.getBigDecimal(2) + " " + rows.getDate(3) + " " + rows.getTimestamp(4) + " " + rows.getBoolean(5);
                System.out.println("rows " + count + " " + last);
            }
            for (int turn = 0; turn < 7; turn++)
                try (PreparedStatement one = connection.prepareStatement("SELECT name FROM customers WHERE id = ?")) {
                    one.setLong(1, 1 + turn % 3);
                    ResultSet rows = one.executeQuery();
                    rows.next();
                    if (turn == 6) System.out.println("name " + rows.getString(1) + " " + rows.getMetaData().getTableName(1));
                }
            connection.setSavepoint("here");
            connection.rollback();
        }
    }
}
